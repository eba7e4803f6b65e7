//! Records in a SQLite file.

mod builder;
pub(crate) mod clock;
mod errors;
mod file;
mod reader;
mod records;
mod turnstile;
mod watches;
mod writer;

pub use builder::SqliteBuilder;
#[doc(hidden)]
pub use clock::Now;
pub use file::Synchronous;

use crate::client::Param;
use crate::client::rusqlite::{all_rows, first_row};
use crate::columns::{KeyColumns, damaged};
use crate::dialect::sqlite::Statements;
use crate::listing;
use crate::store_parts::{USAGE_EVERY, lock, pace};
use errors::{is_busy, store_error};
use file::File;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::Committed;
use idempotent_runtime::store::{
    Answer, Cursor, Filter, Found, FreedEvent, FreedListener, Maintenance, Page, Record, Seen,
    Store, StoreError, StoreFuture, Swap, Swapped, Token, Usage, Watch,
};
use reader::{Looks, Reader};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use watches::Watches;
use writer::Requests;

/// Records in a table of a SQLite file, for all processes of one machine.
///
/// ```
/// use idempotent_runtime::{Error, Idempotency, Mode};
/// use idempotent_sql::SqliteStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = std::env::temp_dir().join(format!("sqlite-store-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("idempotency.db");
///
/// let idem = Idempotency::builder().store(SqliteStore::open(&path)?).build()?;
/// let mail = idem.operation("mail.send").key(7).mode(Mode::Strong);
/// let sent: Result<u8, Error> = mail.run(async { Ok(1) }).await;
/// assert_eq!(sent?, 1);
///
/// // Another process, or this one after a restart.
/// let idem = Idempotency::builder().store(SqliteStore::open(&path)?).build()?;
/// let mail = idem.operation("mail.send").key(7).mode(Mode::Strong);
/// let replayed: Result<u8, Error> = mail.run(async { Ok(2) }).await;
/// assert_eq!(replayed?, 1);
/// # drop(idem);
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok(()) }
/// ```
///
/// # The file
/// Opening a store makes the file, and the table in it. The file may hold other tables, such as
/// those of the service itself: `user_version` and `application_id` are left alone, and the version
/// of the table stands in the text that made it. The file has a write-ahead log, which stays set. It
/// belongs on a local disk: network file systems do not share the memory that the log needs.
///
/// # Durability
/// A write is acknowledged when its transaction is on the disk, so a process that is killed at any
/// moment, and a machine that loses power, lose nothing that was acknowledged. With
/// [`Synchronous::Normal`] the last moments before a loss of power may be lost.
///
/// # Writes and reads
/// One thread writes. It commits what has come in while the disk was busy as one transaction, so
/// that many callers share a wait for the disk. Reads do not wait for it: a repeat call reads the
/// record on the caller's thread, which takes some microseconds while its page is in memory, and
/// writes nothing. Callers may come from any runtime; the threads are the store's own, and end when
/// its last clone is dropped.
///
/// # Several processes
/// Processes on one file take turns at its write lock, for which they queue up at two small files beside
/// it. One that holds it for longer than
/// [`patience`](SqliteBuilder::patience) makes the others' writes fail as contended, without effect.
/// Callers that wait for an attempt of their own process are woken when it ends; attempts of other
/// processes are noticed within some milliseconds.
///
/// # Time
/// Leases count on the boot clock of the machine, which goes on while it sleeps and cannot be set.
/// After a restart of the machine no lease is alive. Retention counts on the wall clock: one that is
/// set back makes records live longer, and never a lease; one that is set forward makes records
/// expire early that have no living lease. On systems other than Linux leases count on the wall
/// clock too.
#[derive(Clone)]
pub struct SqliteStore(Arc<Inner>);

struct Inner {
    file: Arc<File>,
    writer: Requests,
    looks: Looks,
    reader: Reader,
    watches: Arc<Watches>,
    /// Asked to be told of records that operators free.
    told: Mutex<Vec<FreedListener>>,
    expire_batch: i64,
    expire_rate: u32,
    usage: Mutex<Option<(Instant, Usage)>>,
}

impl SqliteStore {
    /// Opens a file. Makes it and the table if they are missing.
    ///
    /// # Errors
    /// The file cannot be read and written, is no database, or has a table of another version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::builder(path).open()
    }

    /// A store with further options.
    pub fn builder(path: impl AsRef<Path>) -> SqliteBuilder {
        SqliteBuilder::new(path.as_ref())
    }

    /// The statements that make the table, for migrations of your own.
    ///
    /// They change nothing where the table is there already.
    pub fn schema(&self) -> Vec<String> {
        let table = &self.0.file.table;
        crate::dialect::sqlite::schema(&table.quoted, &table.index)
    }

    /// The table, as it is written in statements.
    pub(crate) fn table(&self) -> &str {
        &self.0.file.table.quoted
    }

    pub(crate) fn statements(&self) -> &Statements {
        &self.0.file.statements
    }

    pub(crate) fn now(&self) -> Now {
        self.0.file.clock.now()
    }

    /// Finds out what became of a transaction whose commit failed without saying how.
    pub(crate) async fn find_out(
        &self,
        key: &RecordKey,
        token: Token,
    ) -> Result<Committed, StoreError> {
        // The lost transaction is over when another one can write.
        self.0.writer.expire(0).await?;
        let found = Store::load(self, key).await?;
        Ok(Committed::from_record(found.as_ref(), token))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.file.path
    }

    /// The time that a query of the table takes.
    ///
    /// # Errors
    /// The file cannot be read, or the table is missing.
    pub async fn health(&self) -> Result<Duration, StoreError> {
        let asked = Instant::now();
        let look = |connection: &rusqlite::Connection, file: &File| {
            records::look(connection, file, b"", &file.clock.now())
        };
        self.0.reader.ask(look).await?.map_err(damaged)?;
        Ok(asked.elapsed())
    }
}

impl Inner {
    /// Looks at a record, without the writer.
    async fn look(&self, key: &RecordKey) -> Result<Option<Found>, StoreError> {
        let name = KeyColumns::of(key).name;
        let file = &*self.file;
        let here =
            self.looks.with(|connection| records::look(connection, file, &name, &file.clock.now()));
        let found = match here {
            Ok(found) => found,
            // It waits on another thread.
            Err(error) if is_busy(&error) => {
                let name = name.into_owned();
                let look = move |connection: &rusqlite::Connection, file: &File| {
                    records::look(connection, file, &name, &file.clock.now())
                };
                self.reader.ask(look).await?
            }
            Err(error) => return Err(store_error(error, file)),
        };
        found.map_err(damaged)
    }

    async fn load(&self, key: &RecordKey) -> Result<Option<Record>, StoreError> {
        let found = self.look(key).await?;
        Ok(found
            .map(|Found { head, value, ttl }| Record::new(head, value, ttl.unwrap_or_default())))
    }

    async fn swap(&self, key: &RecordKey, swap: Swap) -> Result<Swapped, StoreError> {
        // Most of those find a record: a repeat call writes nothing, and does not wait.
        if swap.seen == Seen::Nothing
            && let Some(found) = self.look(key).await?
        {
            return Ok(Swapped::Found(Some(found)));
        }
        self.writer.swap(key, swap).await
    }

    async fn scan(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let limit = listing::page_size(limit);
        let after = listing::place(after)?;
        let rows = move |connection: &rusqlite::Connection, file: &File| {
            let now = file.clock.now();
            let [wall, boot, boot_id] = now.params();
            let limit = Param::Integer(i64::try_from(limit).ok());
            let params = [after.as_slice().into(), limit, wall, boot, boot_id];
            all_rows(connection, &file.statements.scan, &params)
        };
        listing::page(self.reader.ask(rows).await?, filter, limit)
    }

    async fn maintain(&self) -> Maintenance {
        let limit = self.expire_batch;
        let expired = match self.writer.expire(limit).await {
            Ok(expired) => expired,
            Err(error) => {
                tracing::debug!(target: "idempotent", %error, "expired records are left for later");
                return Maintenance::default();
            }
        };
        self.look_at_usage().await;
        let mut maintenance = Maintenance::expired(expired);
        maintenance.more = expired >= limit.cast_unsigned();
        if maintenance.more {
            tokio::time::sleep(pace(expired.cast_signed(), self.expire_rate)).await;
        }
        maintenance
    }

    /// Counts the records, now and then.
    async fn look_at_usage(&self) {
        let is_fresh = |(at, _): &(Instant, Usage)| at.elapsed() < USAGE_EVERY;
        if lock(&self.usage).as_ref().is_some_and(is_fresh) {
            return;
        }
        let count = |connection: &rusqlite::Connection, file: &File| {
            first_row(connection, &file.statements.usage, &[])
        };
        let Ok(Some(mut row)) = self.reader.ask(count).await else { return };
        if let (Ok(Some(entries)), Ok(Some(bytes))) = (row.integer(), row.integer()) {
            let usage = Usage::new(entries.cast_unsigned(), bytes.cast_unsigned());
            *lock(&self.usage) = Some((Instant::now(), usage));
        }
    }
}

impl Store for SqliteStore {
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        StoreFuture::new(self.0.load(key))
    }

    fn swap<'a>(&'a self, key: &'a RecordKey, swap: Swap) -> Answer<'a, Swapped> {
        StoreFuture::new(self.0.swap(key, swap))
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.0.file.patience)
    }

    fn watch<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Watch> {
        let watch = self.0.watches.watch(&KeyColumns::of(key));
        self.0.reader.poll();
        StoreFuture::ready(Ok(watch))
    }

    fn scan<'a>(
        &'a self,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> Answer<'a, Page> {
        StoreFuture::new(self.0.scan(filter, after, limit))
    }

    /// Tells of records that are freed through this store. Other processes learn of them when they
    /// renew.
    fn on_freed(&self, listener: FreedListener) {
        let mut told = lock(&self.0.told);
        told.retain(|listener| !listener.is_over());
        told.push(listener);
    }

    fn announce_freed<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, ()> {
        let told = lock(&self.0.told).clone();
        for listener in told {
            listener.tell(FreedEvent::Freed(key.as_str()));
        }
        StoreFuture::ready(())
    }

    fn maintain(&self) -> StoreFuture<'_, Maintenance> {
        StoreFuture::new(self.0.maintain())
    }

    fn usage(&self) -> Option<Usage> {
        lock(&self.0.usage).map(|(_, usage)| usage)
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SqliteStore")
            .field("path", &self.0.file.path)
            .field("table", &self.0.file.table.quoted)
            .finish_non_exhaustive()
    }
}
