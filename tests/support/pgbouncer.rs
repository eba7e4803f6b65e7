//! A pooler between clients and a PostgreSQL server.

use crate::guard::{Account, Guard, program};
use crate::redis::{TempDirectory, free_port};
use std::fs;
use std::path::Path;

/// Time for which a client keeps a connection to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    Session,
    Transaction,
    Statement,
}

/// A pooler that forwards every database of a server. It is ended with this value, or with this process.
#[derive(Debug)]
pub struct PgBouncer {
    // Before the directory, which the pooler uses until it has ended.
    guard: Guard,
    pub port: u16,
    directory: TempDirectory,
}

impl PgBouncer {
    /// A pooler in front of the server at this address, a host and a port.
    pub fn start(address: &str, mode: PoolMode) -> Self {
        Self::start_with(address, mode, &[])
    }

    /// The same, with more settings: lines of `pgbouncer.ini`.
    ///
    /// # Panics
    /// `pgbouncer` is missing, or does not start.
    pub fn start_with(address: &str, mode: PoolMode, settings: &[&str]) -> Self {
        let directory = TempDirectory::new();
        // It refuses to run as root, as the server does.
        let account = Account::owner_of(&directory, "postgres");
        let file = directory.path().join("pgbouncer.ini");
        let binary = program("pgbouncer", "pgbouncer");
        let guard = Guard::new(account, &directory, "KILL", &[&binary, &file]);
        let mut pooler = Self { guard, port: 0, directory };
        // Another process may take the port before the pooler does.
        for _ in 0..10 {
            pooler.port = free_port();
            let own = configuration(address, mode, pooler.port, pooler.directory.path());
            fs::write(&file, format!("{own}{}\n", settings.join("\n"))).unwrap();
            if pooler.guard.start("process up") {
                return pooler;
            }
        }
        panic!("pgbouncer does not start:\n{}", pooler.log());
    }

    /// The log of the pooler.
    pub fn log(&self) -> String {
        self.guard.log()
    }
}

/// The lines of `pgbouncer.ini` that every pooler has.
fn configuration(address: &str, mode: PoolMode, port: u16, directory: &Path) -> String {
    let (host, server_port) = address.split_once(':').expect("a host and a port");
    let directory = directory.display();
    let mode = match mode {
        PoolMode::Session => "session",
        PoolMode::Transaction => "transaction",
        PoolMode::Statement => "statement",
    };
    // Whatever name the client gives, the server sees its superuser.
    format!(
        "[databases]
* = host={host} port={server_port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir = {directory}
auth_type = any
pool_mode = {mode}
"
    )
}
