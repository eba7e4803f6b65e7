//! A SQLite store under test, on clocks that can be moved.

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{Store, StoreFuture};
use idempotent_runtime::testing::Subject;
use idempotent_sql::{Now, SqliteBuilder, SqliteStore, Synchronous};
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::redis::TempDirectory;

/// Clocks of a machine that stand still until they are moved.
#[derive(Clone, Debug)]
pub(crate) struct Clocks(Arc<Mutex<Now>>);

impl Clocks {
    pub(crate) fn new() -> Self {
        let now = Now { wall: 1_700_000_000_000_000, boot: 3_600_000_000, boot_id: "first".into() };
        Self(Arc::new(Mutex::new(now)))
    }

    pub(crate) fn now(&self) -> Now {
        self.0.lock().unwrap().clone()
    }

    /// Lets time pass.
    pub(crate) fn advance(&self, by: Duration) {
        let by = by.as_micros() as i64;
        let mut now = self.0.lock().unwrap();
        now.wall += by;
        now.boot += by;
    }

    /// Sets the wall clock, by so many seconds from where it is.
    pub(crate) fn set_wall(&self, seconds: i64) {
        self.0.lock().unwrap().wall += seconds * 1_000_000;
    }

    /// Starts the machine again, after it was off for some time.
    pub(crate) fn reboot(&self, off: Duration) {
        let mut now = self.0.lock().unwrap();
        now.wall += off.as_micros() as i64;
        now.boot = 20_000_000;
        now.boot_id = format!("{}, then another", now.boot_id).into();
    }
}

/// A file in a folder of its own.
#[derive(Debug)]
pub(crate) struct TempFile(TempDirectory);

impl TempFile {
    pub(crate) fn new() -> Self {
        Self(TempDirectory::new())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("records.db")
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    pub(crate) fn builder(&self) -> SqliteBuilder {
        SqliteStore::builder(self.path())
    }

    /// A connection of the test's own.
    pub(crate) fn connection(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection
    }
}

pub(crate) struct SqliteSubject {
    pub(crate) store: SqliteStore,
    pub(crate) clocks: Clocks,
    pub(crate) file: TempFile,
}

impl SqliteSubject {
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub(crate) fn with(choose: impl FnOnce(SqliteBuilder) -> SqliteBuilder) -> Self {
        let (file, clocks) = (TempFile::new(), Clocks::new());
        let read = clocks.clone();
        // Most tests are not about the disk.
        let builder = file.builder().clock(move || read.now()).synchronous(Synchronous::Normal);
        let store = choose(builder).open().unwrap();
        Self { store, clocks, file }
    }
}

impl Subject for SqliteSubject {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn step<'a>(&'a self, _: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
        self.clocks.advance(by);
        StoreFuture::ready(())
    }
}
