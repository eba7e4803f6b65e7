//! Databases on a server that tests share: each test has one of its own, which is dropped with its value.

use crate::guard::succeed;
use std::process::{Command, Stdio};

/// A server that tests share, each with a database of its own. It is fast, not durable.
#[derive(Debug)]
pub struct SharedServer {
    /// A URL of a superuser, without a database.
    base: String,
    dialect: &'static Dialect,
}

/// Differences between the servers.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Database that every server has.
    pub(crate) home: &'static str,
    /// A command of the server's own client, which runs statements in the database of a URL.
    pub(crate) client: fn(url: &str, statements: &str) -> Command,
    /// Options of the statement that creates a database, which follow the name.
    pub(crate) create_options: &'static str,
    /// Options of the statement that drops a database, which follow the name.
    pub(crate) drop_options: &'static str,
}

impl Dialect {
    /// Runs statements, and returns what they print.
    ///
    /// # Panics
    /// A statement fails.
    pub(crate) fn execute(&self, url: &str, statements: &str) -> String {
        succeed(&mut (self.client)(url, statements)).trim_end().to_owned()
    }

    /// Creates a database with a random name on the server of this URL, and returns the name.
    pub(crate) fn create(&self, base: &str) -> String {
        let name = format!("test_{:016x}", rand::random::<u64>());
        let statement = format!("CREATE DATABASE {name} {}", self.create_options);
        self.execute(&format!("{base}/{}", self.home), &statement);
        name
    }
}

impl SharedServer {
    pub(crate) fn new(url: &str, dialect: &'static Dialect) -> Self {
        Self { base: url.trim_end_matches('/').to_owned(), dialect }
    }

    /// The address of a database as the superuser.
    pub fn url(&self, database: &str) -> String {
        format!("{}/{database}", self.base)
    }

    /// Host and port, for proxies and poolers.
    pub fn address(&self) -> &str {
        self.base.rsplit(['@', '/']).next().unwrap_or(&self.base)
    }

    /// Creates a database with a random name.
    pub fn database(&'static self) -> Database {
        Database { server: self, name: self.dialect.create(&self.base) }
    }
}

/// A database that is dropped with this value.
#[derive(Debug)]
pub struct Database {
    server: &'static SharedServer,
    name: String,
}

impl Database {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address as the superuser.
    pub fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// The same, through a proxy or a pooler on this port.
    pub fn url_through(&self, port: u16) -> String {
        self.url().replace(self.server.address(), &format!("127.0.0.1:{port}"))
    }

    /// Runs statements with the server's own client, and returns the rows that they print.
    ///
    /// # Panics
    /// A statement fails.
    pub fn execute(&self, statements: &str) -> String {
        self.server.dialect.execute(&self.url(), statements)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let Dialect { home, client, drop_options, .. } = self.server.dialect;
        let statement = format!("DROP DATABASE IF EXISTS {} {drop_options}", self.name);
        let mut command = client(&self.server.url(home), &statement);
        let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
