//! Real PostgreSQL servers: one that tests share, each with a database of its own, and servers that a test may kill.

use crate::database::{Dialect, SharedServer};
use crate::guard::{Account, Guard, Paused, succeed, wait_until};
use crate::redis::{TempDirectory, free_port, signal};
use crate::tls::Authority;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Names a running server for [`shared_postgres`]: a URL of a superuser, without a database.
pub const SHARED: &str = "POSTGRES_UNDER_TEST";

/// Names more folders with `initdb`, `postgres` and `psql`, separated by white space, for [`binaries`].
pub const MORE_SERVERS: &str = "POSTGRES_BINARIES_UNDER_TEST";

const ACCOUNT: &str = "postgres";

/// Settings of every server. Shared memory that survives a killed server is in its directory, and removed with it.
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
max_connections = 200
dynamic_shared_memory_type = mmap
";

/// Further settings of the shared server, which no test kills.
const WITHOUT_DURABILITY: &[&str] =
    &["fsync = off", "full_page_writes = off", "max_connections = 500"];

/// The folder with the server of the machine, and every one that the environment names.
///
/// # Panics
/// One of them is missing.
pub fn binaries() -> Vec<PathBuf> {
    let more = std::env::var(MORE_SERVERS).unwrap_or_default();
    let mut all = vec![installed()];
    for path in more.split_whitespace() {
        let path = PathBuf::from(path);
        assert!(
            has_server(&path),
            "{MORE_SERVERS} names `{}`, which has no initdb, postgres and psql",
            path.display()
        );
        all.push(path);
    }
    all
}

/// The folder with the server of the machine: the one in `PATH`, the one that `pg_config` names, or Debian's newest.
///
/// # Panics
/// There is none.
pub fn installed() -> PathBuf {
    static INSTALLED: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| in_path().or_else(configured).or_else(newest_of_debian));
    INSTALLED.clone().expect("PostgreSQL is missing; help: apt-get install postgresql")
}

fn has_server(folder: &Path) -> bool {
    ["initdb", "postgres", "psql"].iter().all(|name| folder.join(name).is_file())
}

fn in_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A link to the server leads to the folder that has the other programs too.
    let servers = std::env::split_paths(&path).map(|folder| folder.join("postgres").canonicalize());
    let folders = servers.flatten().filter_map(|server| Some(server.parent()?.to_owned()));
    folders.into_iter().find(|folder| has_server(folder))
}

fn configured() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").stderr(Stdio::null()).output().ok()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    has_server(&folder).then_some(folder)
}

fn newest_of_debian() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let versions = versions.map(|entry| entry.path());
    let folders = versions.filter_map(|path| Some((version(&path)?, path.join("bin"))));
    folders.filter(|(_, folder)| has_server(folder)).max().map(|(_, folder)| folder)
}

/// Runs statements with `psql`, and returns the rows that they print: columns separated by `|`.
///
/// # Panics
/// A statement fails.
pub fn psql(url: &str, statements: &str) -> String {
    DIALECT.execute(url, statements)
}

fn psql_command(url: &str, statements: &str) -> Command {
    let mut command = Command::new(installed().join("psql"));
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", statements]);
    command.stdin(Stdio::null());
    command
}

/// A durable server of a test's own. It is ended with this value, or with this process.
#[derive(Debug)]
pub struct PostgresServer {
    // Before the directory, which the server uses until it has ended.
    guard: Guard,
    pub port: u16,
    directory: TempDirectory,
}

impl PostgresServer {
    /// The machine's server.
    pub fn start() -> Self {
        Self::start_with(&installed(), &[])
    }

    /// The machine's server for many tests: fast, not durable.
    pub fn start_to_share() -> Self {
        Self::start_with(&installed(), WITHOUT_DURABILITY)
    }

    /// A server from this folder, with more settings: lines of `postgresql.conf`.
    pub fn start_with(bin_dir: &Path, settings: &[&str]) -> Self {
        Self::start_prepared(bin_dir, settings, |_, _| {})
    }

    /// The machine's server, which also speaks TLS.
    pub fn start_tls(authority: &Authority) -> Self {
        Self::start_prepared(&installed(), &["ssl = on"], |account, data| {
            let (certificate, key) = authority.certificate();
            account.write(&data.join("server.crt"), &certificate);
            account.write(&data.join("server.key"), &key);
        })
    }

    /// A server whose data directory is prepared further before it starts.
    fn start_prepared(
        bin_dir: &Path,
        settings: &[&str],
        prepare: impl FnOnce(Account, &Path),
    ) -> Self {
        let directory = TempDirectory::new();
        let account = Account::owner_of(&directory, ACCOUNT);
        let data = directory.path().join("data");
        let mut initdb = account.command(&bin_dir.join("initdb"));
        initdb.args(["-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8", "--no-sync"]);
        initdb.arg("-D").arg(&data).current_dir(directory.path());
        succeed(&mut initdb);
        prepare(account, &data);
        let mut file = File::options().append(true).open(data.join("postgresql.conf")).unwrap();
        let socket = directory.path().display();
        write!(file, "{SETTINGS}unix_socket_directories = '{socket}'\n{}\n", settings.join("\n"))
            .unwrap();
        let postgres = bin_dir.join("postgres");
        let guard = Guard::new(account, &directory, "QUIT", &[&postgres, Path::new("-D"), &data]);
        let mut server = Self { guard, port: 0, directory };
        // Another process may take the port before the server does.
        for _ in 0..10 {
            server.port = free_port();
            writeln!(file, "port = {}", server.port).unwrap();
            if server.come_up() {
                return server;
            }
        }
        panic!("{} does not start:\n{}", postgres.display(), server.log());
    }

    /// The address of a database as the superuser. There is one of the name `postgres`.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The directory of the server, which has its unix socket, and its data in the folder `data`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Process id of the postmaster.
    ///
    /// # Panics
    /// The server was killed.
    pub fn process(&self) -> u32 {
        self.guard.process()
    }

    /// Creates a database with a random name, and returns its URL.
    pub fn create_database(&self) -> String {
        let name = DIALECT.create(&format!("postgres://postgres@{}", self.address()));
        self.url(&name)
    }

    /// Replaces the rules of access, the lines of `pg_hba.conf`. They hold for the next connections.
    pub fn set_access(&self, rules: &str) {
        fs::write(self.directory().join("data/pg_hba.conf"), rules).unwrap();
        let reloads = || self.log().matches("reloading configuration files").count();
        let before = reloads();
        signal(self.process(), "HUP");
        wait_until(|| reloads() > before);
    }

    /// Ends the server and all of its sessions without a warning, as a crash does.
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

    /// Stops the process of a session where it is, until the returned value is dropped.
    pub fn pause_backend(&self, process: u32) -> Paused {
        Paused::new(process)
    }

    /// The log of the server since its last start.
    pub fn log(&self) -> String {
        self.guard.log()
    }

    fn come_up(&mut self) -> bool {
        self.guard.start("database system is ready to accept connections")
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // A killed server has left a segment of System V shared memory, which only its next start would remove.
        if !self.guard.is_started() {
            let lock = fs::read_to_string(self.directory().join("data/postmaster.pid"));
            let lock = lock.unwrap_or_default();
            let segment = lock.lines().nth(6).and_then(|line| line.split_whitespace().nth(1));
            if let Some(segment) = segment {
                let _ = Command::new("ipcrm").args(["-m", segment]).status();
            }
        }
    }
}

/// The server that the environment names, or one of this process.
pub fn shared_postgres() -> &'static SharedServer {
    static STARTED: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start_to_share);
    static SERVER: LazyLock<SharedServer> = LazyLock::new(|| {
        let url = std::env::var(SHARED).unwrap_or_else(|_| STARTED.url(""));
        SharedServer::new(&url, &DIALECT)
    });
    &SERVER
}

/// Nobody can be connected to `template0`, which would be refused. The default strategy logs its pages. Copying files
/// takes 20 instead of 30 ms on an idle server, but 110 instead of 90 ms beside writers, and has them wait for checkpoints.
static DIALECT: Dialect = Dialect {
    home: "postgres",
    client: psql_command,
    create_options: "TEMPLATE template0",
    drop_options: "WITH (FORCE)",
};
