//! Arguments of the program.

use std::path::PathBuf;

/// The text for `--help`.
pub const USAGE: &str = "\
scripts/bench                 everything, on every server; writes docs/benchmarks.md
scripts/bench --quick         first executions and replays on one server, printed only
scripts/bench --waiters       callers that wait for a body in another process, on one server,
                              printed only
scripts/bench --full          also 10 million records, values of 1 MB, and more rounds

--servers DIR     every file of DIR whose name ends in `-server`, beside the machine's
                  redis-server and those of REDIS_SERVERS_UNDER_TEST
--only TEXT       servers whose path contains TEXT; may be given more than once
--rounds N        rounds that are counted
--output DIR      writes benchmarks.md and benchmarks.svg into DIR instead of docs/";

/// The extent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Two minutes: for comparing two versions of the product.
    Quick,
    /// Seconds: callers that wait, for comparing two versions of the product.
    Waiters,
    /// Within an hour.
    Usual,
    /// Hours.
    Full,
}

/// Arguments of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The extent of the run.
    pub extent: Extent,
    /// A directory with servers.
    pub servers: Option<PathBuf>,
    /// Parts of the paths of the servers that are measured; none for all.
    pub only: Vec<String>,
    /// Rounds that are counted, if they are not those of the extent.
    pub rounds: Option<usize>,
    /// The directory of the report.
    pub output: PathBuf,
}

impl Options {
    /// Reads arguments.
    ///
    /// # Errors
    /// One of them is not known, or lacks its value.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            extent: Extent::Usual,
            servers: None,
            only: Vec::new(),
            rounds: None,
            output: PathBuf::from("docs"),
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("`{argument}` needs a value"));
            match argument.as_str() {
                "--quick" => options.extent = Extent::Quick,
                "--waiters" => options.extent = Extent::Waiters,
                "--full" => options.extent = Extent::Full,
                "--servers" => options.servers = Some(value()?.into()),
                "--only" => options.only.push(value()?),
                "--output" => options.output = value()?.into(),
                "--rounds" => options.rounds = Some(positive(&value()?)?),
                _ => return Err(format!("there is no option `{argument}`\nhelp:\n{USAGE}")),
            }
        }
        Ok(options)
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("`{text}` is not a number of rounds\nhelp: --rounds 11")),
        Ok(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read() {
        let options = parse("--quick --rounds 3 --only redis-8 --servers /opt").unwrap();
        assert_eq!(options.extent, Extent::Quick);
        assert_eq!(options.rounds, Some(3));
        assert_eq!(options.only, ["redis-8"]);
        assert_eq!(options.servers, Some(PathBuf::from("/opt")));
    }

    #[test]
    fn one_part_is_chosen_by_its_name() {
        assert_eq!(parse("--waiters").unwrap().extent, Extent::Waiters);
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse("--fast").unwrap_err().contains("`--fast`"));
        assert!(parse("--rounds").unwrap_err().contains("needs a value"));
        assert!(parse("--rounds 0").unwrap_err().contains("`0`"));
    }
}
