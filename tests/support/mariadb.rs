//! Real MariaDB servers: one that tests share, each with a database of its own, and servers that a test may kill.

use crate::database::{Dialect, SharedServer};
use crate::guard::{Account, Guard, Paused, program, succeed};
use crate::redis::{TempDirectory, free_port};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Names a running server for [`shared_mariadb`]: a URL of a superuser, without a database.
pub const SHARED: &str = "MARIADB_UNDER_TEST";

const ACCOUNT: &str = "mysql";
const PACKAGE: &str = "mariadb-server";

/// Further settings of the shared server, which no test kills.
const WITHOUT_DURABILITY: &[&str] =
    &["innodb-flush-log-at-trx-commit = 0", "innodb-doublewrite = 0", "max-connections = 500"];

/// Runs statements with `mariadb`, and returns the rows that they print: columns separated by tabs.
///
/// # Panics
/// A statement fails.
pub fn mariadb(url: &str, statements: &str) -> String {
    DIALECT.execute(url, statements)
}

fn client_command(url: &str, statements: &str) -> Command {
    let parts = url.strip_prefix("mysql://").and_then(|rest| {
        let (user, rest) = rest.split_once('@')?;
        let (host, rest) = rest.split_once(':')?;
        let (port, database) = rest.split_once('/')?;
        let (user, password) = user.split_once(':').unwrap_or((user, ""));
        Some([user, password, host, port, database])
    });
    let [user, password, host, port, database] =
        parts.unwrap_or_else(|| panic!("not like `mysql://root@127.0.0.1:3306/name`: {url}"));
    let mut command = Command::new(program("mariadb", PACKAGE));
    command.args(["--no-defaults", "--batch", "--skip-column-names", "--protocol=tcp"]);
    command.args(["--host", host, "--port", port, "--user", user]);
    command.arg(format!("--password={password}"));
    command.args(["--execute", statements, "--", database]).stdin(Stdio::null());
    command
}

/// A durable server of a test's own. It is ended with this value, or with this process.
#[derive(Debug)]
pub struct MariaDbServer {
    // Before the directory, which the server uses until it has ended.
    guard: Guard,
    pub port: u16,
    directory: TempDirectory,
}

impl MariaDbServer {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server for many tests: fast, not durable.
    pub fn start_to_share() -> Self {
        Self::start_with(WITHOUT_DURABILITY)
    }

    /// A server with more settings: lines of `my.cnf`.
    pub fn start_with(settings: &[&str]) -> Self {
        let directory = TempDirectory::new();
        let account = Account::owner_of(&directory, ACCOUNT);
        let file = directory.path().join("my.cnf");
        let defaults = PathBuf::from(format!("--defaults-file={}", file.display()));
        fs::write(&file, configuration(0, directory.path())).unwrap();
        let mut install = account.command(&program("mariadb-install-db", PACKAGE));
        install.arg(&defaults).args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        // Even a killed server loses nothing by this: the operating system has the files.
        install.arg("--innodb-flush-method=nosync").current_dir(directory.path());
        succeed(&mut install);
        let guard =
            Guard::new(account, &directory, "KILL", &[&program("mariadbd", PACKAGE), &defaults]);
        let mut server = Self { guard, port: 0, directory };
        // Another process may take the port before the server does.
        for _ in 0..10 {
            server.port = free_port();
            let own = configuration(server.port, server.directory());
            fs::write(&file, format!("{own}{}\n", settings.join("\n"))).unwrap();
            if server.come_up() {
                return server;
            }
        }
        panic!("mariadbd does not start:\n{}", server.log());
    }

    /// The address of a database as the superuser. There is one of the name `mysql`.
    pub fn url(&self, database: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{database}", self.port)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The directory of the server, which has its unix socket (`socket`), and its data in the folder `data`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Process id of the server.
    ///
    /// # Panics
    /// It was killed.
    pub fn process(&self) -> u32 {
        self.guard.process()
    }

    /// Creates a database with a random name, and returns its URL.
    pub fn create_database(&self) -> String {
        let name = DIALECT.create(&format!("mysql://root@{}", self.address()));
        self.url(&name)
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
        assert!(self.come_up(), "the server does not start again:\n{}", self.log());
    }

    /// Stops the server where it is, until the returned value is dropped.
    pub fn pause(&self) -> Paused {
        Paused::new(self.process())
    }

    /// The log of the server since its last start.
    pub fn log(&self) -> String {
        self.guard.log()
    }

    fn come_up(&mut self) -> bool {
        self.guard.start("ready for connections")
    }
}

/// The lines of `my.cnf` that every server has. A server removes temporary tables from its directory for them when it
/// starts, so that two cannot share one.
fn configuration(port: u16, directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "[mariadbd]
datadir = {directory}/data
tmpdir = {directory}
socket = {directory}/socket
pid-file = {directory}/pid
bind-address = 127.0.0.1
port = {port}
max-connections = 200
skip-name-resolve
"
    )
}

/// The server that the environment names, or one of this process.
pub fn shared_mariadb() -> &'static SharedServer {
    static STARTED: LazyLock<MariaDbServer> = LazyLock::new(MariaDbServer::start_to_share);
    static SERVER: LazyLock<SharedServer> = LazyLock::new(|| {
        let url = std::env::var(SHARED).unwrap_or_else(|_| STARTED.url(""));
        SharedServer::new(&url, &DIALECT)
    });
    &SERVER
}

static DIALECT: Dialect =
    Dialect { home: "mysql", client: client_command, create_options: "", drop_options: "" };
