//! `scripts/bench`: measures, and writes the report.

use idempotent_bench::options::{Extent, Options, USAGE};
use idempotent_bench::quick;
use idempotent_bench::servers::{Server, find};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match Options::parse(arguments).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("tokio does not start: {error}"))?;
    let servers = chosen(options)?;
    match options.extent {
        Extent::Quick => runtime.block_on(async {
            let server = Server::start(&servers[0]).await?;
            println!("{}", quick::run(&server, options.rounds.unwrap_or(11)).await?);
            Ok(())
        }),
        Extent::Usual | Extent::Full => Err("not yet".to_owned()),
    }
}

/// The servers that are measured.
fn chosen(options: &Options) -> Result<Vec<PathBuf>, String> {
    let mut servers = find(options.servers.as_deref())?;
    if let Some(only) = &options.only {
        servers.retain(|path| path.to_string_lossy().contains(only.as_str()));
        if servers.is_empty() {
            return Err(format!("no server has `{only}` in its path"));
        }
    }
    Ok(servers)
}
