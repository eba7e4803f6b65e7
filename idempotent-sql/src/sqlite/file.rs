//! The file: how connections to it are opened, and the table that is made in it.

use super::clock::Clock;
use super::errors::{another_version, is_busy, read_only, store_error};
use crate::dialect::sqlite::{Statements, VERSION, schema, version_of};
use crate::table::Table;
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use rusqlite::{Connection, Error, OpenFlags, OptionalExtension as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The pause after which a lock is tried again. SQLite's own waits grow, and a process that waits
/// longer then finds the lock taken by one that waits shorter.
pub(super) const TRY_AGAIN: Duration = Duration::from_micros(500);

/// The longest log that is kept.
pub(super) const LOG_SIZE: u64 = 16 * 1024 * 1024;

/// The moment at which a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Synchronous {
    /// It is on the disk: it survives a loss of power.
    #[default]
    Full,
    /// The system has it: it survives the end of the process, but the last writes before a loss of
    /// power or a crash of the system may be gone, answers that were acknowledged among them.
    Normal,
}

/// A file with a table of records, and how it is used.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) table: Table,
    pub(super) statements: Statements,
    pub(super) clock: Clock,
    pub(super) synchronous: Synchronous,
    /// The time for which a lock is waited for.
    pub(super) patience: Duration,
    /// The most pages of the file. For tests.
    pub(super) max_pages: Option<u32>,
}

impl File {
    /// Opens the file to write, and makes it and the table if they are missing.
    pub(super) fn connect_to_write(&self) -> Result<Connection, StoreError> {
        if self.path.as_os_str().is_empty() || self.path.as_os_str() == ":memory:" {
            let text = "a store in SQLite needs a file\nhelp: name a path, or use `MemoryStore`";
            return Err(StoreError::new(StoreErrorKind::Misconfigured, text));
        }
        let create = OpenFlags::SQLITE_OPEN_CREATE;
        let connection = self.connect(create).map_err(|error| store_error(error, self))?;
        if connection.is_readonly("main").unwrap_or(false) {
            return Err(read_only(self));
        }
        let mode = self.patiently(|| {
            connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0))
        })?;
        if mode != "wal" {
            let text = format!(
                "`{}` cannot have a write-ahead log, but only `{mode}`\nhelp: put it on a local disk",
                self.path.display()
            );
            return Err(StoreError::new(StoreErrorKind::Misconfigured, text));
        }
        let synchronous = match self.synchronous {
            Synchronous::Full => "FULL",
            Synchronous::Normal => "NORMAL",
        };
        let settings =
            format!("PRAGMA synchronous = {synchronous}; PRAGMA journal_size_limit = {LOG_SIZE}",);
        self.patiently(|| connection.execute_batch(&settings))?;
        self.make_table(&connection)?;
        self.limit(&connection, self.max_pages).map_err(|error| store_error(error, self))?;
        Ok(connection)
    }

    /// Opens the file to read.
    pub(super) fn connect_to_read(&self) -> Result<Connection, Error> {
        let connection = self.connect(OpenFlags::empty())?;
        connection.execute_batch("PRAGMA query_only = ON")?;
        Ok(connection)
    }

    fn connect(&self, more: OpenFlags) -> Result<Connection, Error> {
        // Each connection is used by one thread at a time.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(Duration::ZERO)?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(connection)
    }

    /// Makes the table if there is none, and refuses one of another version.
    fn make_table(&self, connection: &Connection) -> Result<(), StoreError> {
        let name = self.table.quoted.trim_matches('"');
        let text = "SELECT sql FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?1";
        let found = self.patiently(|| {
            connection.query_row(text, [name], |row| row.get::<_, String>(0)).optional()
        })?;
        match found.as_deref().map(version_of) {
            Some(Some(VERSION)) => Ok(()),
            Some(Some(other)) => Err(another_version(self, &format!("it has version {other}"))),
            Some(None) => Err(another_version(self, "something else made it")),
            None => {
                let schema = schema(&self.table.quoted, &self.table.index).join("; ");
                let script = format!("BEGIN IMMEDIATE; {schema}; COMMIT");
                self.patiently(|| {
                    let made = connection.execute_batch(&script);
                    if made.is_err() && !connection.is_autocommit() {
                        let _ = connection.execute_batch("ROLLBACK");
                    }
                    made
                })
            }
        }
    }

    /// Bounds the pages of the file for what this connection writes.
    pub(super) fn limit(&self, connection: &Connection, pages: Option<u32>) -> Result<(), Error> {
        if self.max_pages.is_none() {
            return Ok(());
        }
        let pages = pages.unwrap_or(u32::MAX - 1);
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
    }

    /// Tries again while another connection holds a lock.
    pub(super) fn patiently<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let give_up = Instant::now() + self.patience;
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(error) if is_busy(&error) && Instant::now() < give_up => {
                    std::thread::sleep(TRY_AGAIN);
                }
                Err(error) => return Err(store_error(error, self)),
            }
        }
    }
}
