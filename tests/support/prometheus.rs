//! A real Prometheus that scrapes one address every second, and the processes that it scrapes.

use crate::guard::{Account, Guard, program, succeed};
use crate::redis::{TempDirectory, free_port};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The server of the machine.
///
/// # Panics
/// There is none.
pub fn installed() -> PathBuf {
    program("prometheus", "prometheus")
}

/// Runs `promtool` with these arguments, in this directory.
///
/// # Panics
/// It is missing, or fails. The message has what it printed.
pub fn promtool(directory: &Path, arguments: &[&str]) -> String {
    let promtool = program("promtool", "prometheus");
    succeed(Command::new(promtool).args(arguments).current_dir(directory))
}

/// A program that serves metrics and prints a line with the URL. Ended with this value, or with this
/// process.
#[derive(Debug)]
pub struct Exporter {
    guard: Guard,
    _directory: TempDirectory,
}

impl Exporter {
    /// Starts a program, and waits until it has printed `ready`.
    ///
    /// # Panics
    /// It does not get that far.
    pub fn start(binary: &Path, arguments: &[&str], ready: &str) -> Self {
        let directory = TempDirectory::new();
        let arguments = arguments.iter().map(Path::new);
        let command: Vec<_> = std::iter::once(binary).chain(arguments).collect();
        let mut guard = Guard::new(Account::present(), &directory, "KILL", &command);
        assert!(guard.start(ready), "{} has ended:\n{}", binary.display(), guard.log());
        Self { guard, _directory: directory }
    }

    /// The address in the URL that it printed.
    ///
    /// # Panics
    /// There is none.
    pub fn address(&self) -> String {
        let printed = self.guard.log();
        let (_, rest) = printed.split_once("http://").expect("it prints a URL");
        rest.split('/').next().unwrap_or_default().to_owned()
    }
}

/// A server with records of its own. Ended with this value, or with this process.
#[derive(Debug)]
pub struct Prometheus {
    // Before the directory, which the server uses until it has ended.
    _guard: Guard,
    port: u16,
    _directory: TempDirectory,
}

/// The last line of a start.
const READY: &str = "Server is ready to receive web requests";

impl Prometheus {
    /// Starts a server that scrapes `target` and evaluates the rules of a file.
    ///
    /// # Panics
    /// It does not start.
    pub fn start(target: &str, rules: &Path) -> Self {
        // Another process may take the port before the server does.
        for _ in 0..10 {
            let directory = TempDirectory::new();
            let port = free_port();
            let config = directory.path().join("prometheus.yml");
            std::fs::write(&config, configuration(target, rules)).unwrap();
            let config = format!("--config.file={}", config.display());
            let data = format!("--storage.tsdb.path={}", directory.path().join("data").display());
            let address = format!("--web.listen-address=127.0.0.1:{port}");
            let command = [&installed(), Path::new(&config), Path::new(&data), Path::new(&address)];
            let mut guard = Guard::new(Account::present(), &directory, "KILL", &command);
            if guard.start(READY) {
                return Self { _guard: guard, port, _directory: directory };
            }
        }
        panic!("Prometheus does not start");
    }

    /// The URL of a path of its interface.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

fn configuration(target: &str, rules: &Path) -> String {
    format!(
        "global:
  scrape_interval: 1s
  evaluation_interval: 1s
rule_files:
  - {}
scrape_configs:
  - job_name: example
    static_configs:
      - targets: ['{target}']
",
        rules.display()
    )
}
