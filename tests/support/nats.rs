//! Real NATS servers with JetStream: one that tests share, each with streams of its own, and servers that a
//! test may kill.

use crate::guard::{Account, Guard, Paused, program};
use crate::redis::{TempDirectory, free_port};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Names a running server with JetStream for [`shared_nats`], by its URL.
pub const SHARED: &str = "NATS_UNDER_TEST";

/// Names more server binaries, separated by white space, for [`more_binaries`].
pub const MORE_SERVERS: &str = "NATS_SERVERS_UNDER_TEST";

/// The server of the machine.
///
/// # Panics
/// There is none.
pub fn installed() -> PathBuf {
    program("nats-server", "nats-server")
}

/// Every server that the environment names.
///
/// # Panics
/// One of them is missing.
pub fn more_binaries() -> Vec<PathBuf> {
    let more = std::env::var(MORE_SERVERS).unwrap_or_default();
    let paths = more.split_whitespace().map(PathBuf::from);
    let found = paths.inspect(|path| {
        assert!(path.is_file(), "{MORE_SERVERS} names `{}`, which is missing", path.display());
    });
    found.collect()
}

/// A server of a test's own, with its streams on disk. It is ended with this value, or with this process.
#[derive(Debug)]
pub struct NatsServer {
    // Before the directory, which the server uses until it has ended.
    guard: Guard,
    port: u16,
    _directory: TempDirectory,
}

impl NatsServer {
    /// The machine's server.
    pub fn start() -> Self {
        Self::start_with(&installed())
    }

    /// A server of this binary.
    ///
    /// # Panics
    /// It does not start.
    pub fn start_with(binary: &Path) -> Self {
        // Another process may take the port before the server does.
        for _ in 0..10 {
            let directory = TempDirectory::new();
            // Any user can run it, also root.
            let account = Account::owner_of(&directory, "root");
            let port = free_port();
            let (number, store) = (port.to_string(), directory.path().join("jetstream"));
            let arguments = ["-a", "127.0.0.1", "-p", &number, "-js", "-sd"].map(Path::new);
            let command = [&[binary], &arguments[..], &[&store]].concat();
            let mut guard = Guard::new(account, &directory, "KILL", &command);
            if guard.start(READY) {
                return Self { guard, port, _directory: directory };
            }
        }
        panic!("{} does not start", binary.display());
    }

    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends the server without a warning, as a crash does.
    pub fn kill(&mut self) {
        self.guard.kill();
    }

    /// Starts it again on its port, with what it has on disk. Kills it before if it runs.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.guard.start(READY), "the server does not start again:\n{}", self.guard.log());
    }

    /// Stops the process where it is, until the returned value is dropped.
    pub fn pause(&self) -> Paused {
        Paused::new(self.guard.process())
    }
}

/// The last line of a start.
const READY: &str = "Server is ready";

/// The URL of the server that the environment names, or of one of this process.
pub fn shared_nats() -> &'static str {
    static STARTED: LazyLock<NatsServer> = LazyLock::new(NatsServer::start);
    static URL: LazyLock<String> =
        LazyLock::new(|| std::env::var(SHARED).unwrap_or_else(|_| STARTED.url()));
    &URL
}
