//! Options of the store.

use super::clock::{Clock, Now};
use super::file::{File, Synchronous};
use super::reader::{Looks, Reader};
use super::watches::Watches;
use super::writer::Requests;
use super::{Inner, SqliteStore};
use crate::dialect::sqlite::Statements;
use crate::table::Table;
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Options of a [`SqliteStore`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it opens the file"]
pub struct SqliteBuilder {
    path: PathBuf,
    table: String,
    synchronous: Synchronous,
    patience: Duration,
    expire_batch: u32,
    expire_rate: u32,
    clock: Clock,
    max_pages: Option<u32>,
}

impl SqliteBuilder {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            table: "idempotent_records".to_owned(),
            synchronous: Synchronous::Full,
            patience: Duration::from_secs(2),
            expire_batch: 500,
            expire_rate: 10_000,
            clock: Clock::of_machine(),
            max_pages: None,
        }
    }

    /// Sets the table; `idempotent_records` by default.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = table.into();
        self
    }

    /// Sets the moment at which a write counts as done; [`Synchronous::Full`] by default.
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets the time for which a write waits while another connection holds the write lock of the
    /// file; 2 seconds by default. It then counts as contended.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets how many expired records are removed in one transaction; 500 by default.
    pub fn expire_batch(mut self, records: u32) -> Self {
        self.expire_batch = records.max(1);
        self
    }

    /// Sets how many expired records a process removes a second, at most; 10,000 by default, and no
    /// limit with 0.
    pub fn expire_rate(mut self, records: u32) -> Self {
        self.expire_rate = records;
        self
    }

    /// Puts other clocks in the place of the machine's. For tests.
    #[doc(hidden)]
    pub fn clock(mut self, now: impl Fn() -> Now + Send + Sync + 'static) -> Self {
        self.clock = Clock::new(now);
        self
    }

    /// Bounds the pages of the file. For tests.
    #[doc(hidden)]
    pub fn max_pages(mut self, pages: u32) -> Self {
        self.max_pages = Some(pages);
        self
    }

    /// Opens the file. Makes it and the table if they are missing.
    ///
    /// This reads the file, and waits if another connection has locked it.
    ///
    /// # Errors
    /// An option is invalid, or the file cannot be read and written, is no database, or has a table
    /// of another version.
    pub fn open(self) -> Result<SqliteStore, StoreError> {
        let table = Table::new(&self.table)?;
        if self.table.contains('.') {
            let text = format!(
                "`{}` cannot be the name of the table\nhelp: without a schema; the file is the one \
                 that the store opens",
                self.table
            );
            return Err(StoreError::new(StoreErrorKind::Misconfigured, text));
        }
        let file = Arc::new(File {
            path: self.path,
            statements: Statements::new(&table.quoted),
            table,
            clock: self.clock,
            synchronous: self.synchronous,
            patience: self.patience,
            max_pages: self.max_pages,
        });
        let to_write = file.connect_to_write()?;
        let to_read = file.patiently(|| file.connect_to_read())?;
        let watches = Arc::new(Watches::default());
        let no_thread = |error: std::io::Error| {
            let text = format!("a thread for SQLite cannot be started: {error}");
            StoreError::new(StoreErrorKind::Unavailable, text).without_effect()
        };
        let writer = Requests::start(Arc::clone(&file), to_write, Arc::clone(&watches));
        let reader = Reader::start(Arc::clone(&file), to_read, Arc::clone(&watches));
        Ok(SqliteStore(Arc::new(Inner {
            looks: Looks::new(Arc::clone(&file)),
            writer: writer.map_err(no_thread)?,
            reader: reader.map_err(no_thread)?,
            file,
            watches,
            told: Mutex::default(),
            expire_batch: self.expire_batch.into(),
            expire_rate: self.expire_rate,
            usage: Mutex::default(),
        })))
    }
}
