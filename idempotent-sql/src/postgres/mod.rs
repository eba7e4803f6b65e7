//! Records in PostgreSQL.

mod builder;
pub(crate) mod errors;
mod hints;
mod looks;
mod pool;
mod swaps;
#[cfg(feature = "postgres-tls")]
mod tls;
mod wakes;
mod watchdog;

pub use builder::PostgresBuilder;
pub(crate) use pool::Checkout;

use crate::client::{Param, Preparation, Row, SqlError, Statement};
use crate::columns::{KeyColumns, damaged, read_record};
use crate::dialect::postgres::Statements;
use crate::store_parts::{USAGE_EVERY, lock, pace};
use crate::table::Table;
use crate::{listing, migration};
use errors::store_error;
use hints::Hints;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::Committed;
use idempotent_runtime::store::{
    Answer, Cursor, Filter, Found, FreedListener, Maintenance, Page, Record, Store, StoreError,
    StoreErrorKind, StoreFuture, Swap, Swapped, Token, Usage, Watch,
};
use looks::LookError;
use pool::Pool;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wakes::Wakes;

/// Records in a PostgreSQL table.
///
/// ```no_run
/// use idempotent_runtime::Idempotency;
/// use idempotent_sql::PostgresStore;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let store = PostgresStore::connect("postgres://app@localhost/shop").await?;
/// store.migrate().await?;
/// Idempotency::builder().store(store).build()?.install()?;
/// # Ok(()) }
/// ```
///
/// A first execution takes two round trips, one to begin and one to complete; a repeat call takes
/// one, and writes nothing. It takes two if another process has made the first call, and this one has
/// met nothing but new keys for a while. Time is the server's.
///
/// # Connections
/// The store has connections of its own, up to [`max_connections`](PostgresBuilder::max_connections)
/// for each runtime that uses it: renewals never wait for a connection that a body holds. They are
/// opened when they are needed and kept.
///
/// # Poolers
/// Behind a pooler that hands out a connection per transaction, such as PgBouncer in transaction
/// mode, the store does without named statements and waiters poll. It notices such a pooler by
/// itself; [`pooler`](PostgresBuilder::pooler) says so from the start.
#[derive(Clone)]
pub struct PostgresStore(Arc<Inner>);

pub(crate) struct Inner {
    table: Table,
    pub(crate) statements: Statements,
    pool: Pool,
    /// Connections for transactions of [`transact`](crate::TransactExt): a body that holds one does not
    /// hold up the store.
    transactions: Pool,
    /// Statements are not named, and notifications are not heard.
    pooled: AtomicBool,
    wakes: Wakes,
    hints: Hints,
    expire_batch: i64,
    expire_rate: u32,
    usage: Mutex<Option<(Instant, Usage)>>,
    server_version: AtomicU64,
}

/// The number of times that a statement is sent again after it lost a race.
const ROUNDS: usize = 8;
/// The oldest server that is supported.
const OLDEST_SERVER: u64 = 15;
/// The time for which a process waits for others that make the same table.
const MIGRATION_PATIENCE: Duration = Duration::from_secs(60);

impl PostgresStore {
    /// Connects to a server by its URL, or by a string of `key=value` pairs.
    ///
    /// # Errors
    /// The URL is invalid, or the server cannot be reached, refuses the user or the database, or is
    /// too old.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder(url).connect().await
    }

    /// Connects to the server of a pool of sqlx, as the pool does, on connections of its own: the
    /// store never waits for one that a body holds.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    #[cfg(feature = "sqlx-postgres")]
    pub async fn from_pool(pool: &sqlx::PgPool) -> Result<Self, StoreError> {
        PostgresBuilder::from(pool).connect().await
    }

    /// A store with further options.
    pub fn builder(url: &str) -> PostgresBuilder {
        PostgresBuilder::new(url)
    }

    /// Creates the table, unless it exists. Processes that do so at the same time wait
    /// for each other.
    ///
    /// This needs a role that may create tables. A role that may only `SELECT`, `INSERT`, `UPDATE`
    /// and `DELETE` is enough for everything else; the statements of [`schema`](Self::schema) can be
    /// run by another one.
    ///
    /// # Errors
    /// The role may not create tables, or the server does not answer.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let inner = &*self.0;
        let mut client = inner.pool.checkout().await?;
        // In one transaction, so that an error leaves nothing behind.
        let millis = MIGRATION_PATIENCE.as_millis();
        let lock = format!(
            "BEGIN; SET LOCAL statement_timeout = {millis}; SET LOCAL lock_timeout = {millis}; \
             SELECT pg_advisory_xact_lock({})",
            migration::LOCK
        );
        let script = format!("{lock}; {}; COMMIT", self.schema().join("; "));
        let migrated = client.batch(&script, MIGRATION_PATIENCE).await;
        if migrated.is_err() {
            let _ = client.batch("ROLLBACK", inner.pool.timeout()).await;
        }
        migrated.map_err(|error| store_error(error, &inner.table.quoted))
    }

    /// The statements that make the table, for migrations of your own.
    ///
    /// They change nothing where the table is there already.
    pub fn schema(&self) -> Vec<String> {
        let Table { quoted, index } = &self.0.table;
        crate::dialect::postgres::schema(quoted, index)
    }

    /// The time that the server takes to query the table.
    ///
    /// # Errors
    /// The server does not answer, or the table is missing or may not be read.
    pub async fn health(&self) -> Result<Duration, StoreError> {
        let asked = Instant::now();
        let inner = &*self.0;
        inner.look(b"").await?;
        Ok(asked.elapsed())
    }

    /// The major version of the server.
    pub fn server_version(&self) -> u64 {
        self.0.server_version.load(Relaxed)
    }

    /// `true` if there is a pooler between this store and the server: statements are not named, and
    /// waiters poll.
    pub fn is_pooled(&self) -> bool {
        self.0.is_pooled()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// The table, as it is written in statements.
    pub(crate) fn table(&self) -> &str {
        &self.0.table.quoted
    }

    /// Finds out what became of a transaction whose commit was not answered.
    pub(crate) async fn find_out(
        &self,
        key: &RecordKey,
        token: Token,
        patience: Duration,
    ) -> Result<Committed, StoreError> {
        self.0.find_out(key, token, patience).await
    }

    /// Reads the version of the server, and refuses one that is too old.
    async fn meet(self) -> Result<Self, StoreError> {
        let text = "SELECT current_setting('server_version_num')::bigint";
        let mut rows = self.0.query(text, &[]).await?;
        let number = rows.first_mut().and_then(|row| row.integer().ok()).flatten().unwrap_or(0);
        let major = number.cast_unsigned() / 10_000;
        self.0.server_version.store(major, Relaxed);
        if major < OLDEST_SERVER {
            let text = format!(
                "the server is PostgreSQL {major}, which is too old\nhelp: use PostgreSQL \
                 {OLDEST_SERVER} or later"
            );
            return Err(StoreError::new(StoreErrorKind::Misconfigured, text));
        }
        Ok(self)
    }
}

impl Inner {
    fn is_pooled(&self) -> bool {
        // Relaxed: a statement that is sent with the old answer is refused and sent again.
        self.pooled.load(Relaxed)
    }

    /// The way in which servers keep the statements of this store.
    pub(crate) fn preparation(&self) -> Preparation {
        if self.is_pooled() { Preparation::Unnamed } else { Preparation::Named }
    }

    /// A connection for a transaction, without the limits that statements of the store have. It is
    /// closed when it is dropped, unless a [`batch`](Checkout::batch) has ended the transaction before.
    pub(crate) async fn transaction(&self) -> Result<Checkout, SqlError> {
        let mut checkout = self.transactions.checkout().await.map_err(SqlError::not_sent)?;
        checkout.lend();
        Ok(checkout)
    }

    /// Runs a statement on a connection of the store.
    async fn query(&self, text: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        for round in 0.. {
            let mut client = self.pool.checkout().await?;
            let preparation = self.preparation();
            let answer = client.query(Statement { text, params, preparation }).await;
            let error = match answer {
                Ok(rows) => return Ok(rows),
                Err(error) => error,
            };
            if round >= ROUNDS {
                return Err(store_error(error, &self.table.quoted));
            }
            if errors::is_prepared_elsewhere(&error) && preparation == Preparation::Named {
                self.notice(&error);
            } else if !errors::is_lost_race(&error) {
                return Err(store_error(error, &self.table.quoted));
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// Looks for the record of a key.
    async fn look(&self, name: &[u8]) -> Result<Vec<Row>, StoreError> {
        let (text, params) = (&self.statements.load, [name.into()]);
        if self.preparation() == Preparation::Named {
            match self.pool.look(text, &params).await {
                Ok(rows) => return Ok(rows),
                Err(LookError::NotSent(error)) => return Err(error),
                // Asked again by itself, as it may be: a look has no effect.
                Err(LookError::Shared) => {}
                Err(LookError::Sent(error)) if errors::is_prepared_elsewhere(&error) => {
                    self.notice(&error);
                }
                Err(LookError::Sent(error)) if errors::is_lost_race(&error) => {}
                Err(LookError::Sent(error)) => {
                    return Err(store_error(error, &self.table.quoted));
                }
            }
        }
        self.query(text, &params).await
    }

    /// Notices a pooler by the error of a statement.
    pub(crate) fn notice(&self, error: &SqlError) {
        if errors::is_prepared_elsewhere(error) {
            self.found_pooler("named statements are gone");
        }
    }

    fn found_pooler(&self, reason: &str) {
        if !self.pooled.swap(true, Relaxed) {
            tracing::info!(
                target: "idempotent",
                reason,
                "a pooler stands before PostgreSQL: statements are not named, and waiters poll"
            );
        }
    }

    async fn load(&self, key: &RecordKey) -> Result<Option<Record>, StoreError> {
        let mut rows = self.look(&KeyColumns::of(key).name).await?;
        let Some(row) = rows.first_mut() else { return Ok(None) };
        let Found { head, value, ttl } = read_record(row).map_err(damaged)?;
        Ok(Some(Record::new(head, value, ttl.unwrap_or_default())))
    }

    /// Waits until a transaction is over, which is when its lock is free, and looks for its record.
    async fn find_out(
        &self,
        key: &RecordKey,
        token: Token,
        patience: Duration,
    ) -> Result<Committed, StoreError> {
        let lock = KeyColumns::of(key).lock(&self.table.quoted);
        let millis = patience.as_millis().clamp(1, 600_000);
        let script = format!(
            "BEGIN; SET LOCAL statement_timeout = {millis}; SET LOCAL lock_timeout = {millis}; \
             SELECT pg_advisory_xact_lock({lock}); COMMIT"
        );
        let waited = async {
            let mut client = self.pool.checkout().await?;
            let waited = client.batch(&script, patience).await;
            if waited.is_err() {
                let _ = client.batch("ROLLBACK", self.pool.timeout()).await;
            }
            waited.map_err(|error| store_error(error, &self.table.quoted))
        };
        waited.await?;
        let found = self.load(key).await?;
        Ok(Committed::from_record(found.as_ref(), token))
    }

    async fn scan(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let limit = listing::page_size(limit);
        let after = listing::place(after)?;
        let params = [after.as_slice().into(), Param::Integer(i64::try_from(limit).ok())];
        let rows = self.query(&self.statements.scan, &params).await?;
        listing::page(rows, filter, limit)
    }

    async fn maintain(&self) -> Maintenance {
        let limit = self.expire_batch;
        let expired = match self.query(&self.statements.expire, &[limit.into()]).await {
            Ok(mut rows) => {
                let count = rows.first_mut().and_then(|row| row.integer().ok()).flatten();
                count.unwrap_or(0)
            }
            Err(error) => {
                tracing::debug!(target: "idempotent", %error, "expired records are left for later");
                return Maintenance::default();
            }
        };
        self.look_at_usage().await;
        let mut maintenance = Maintenance::expired(expired.cast_unsigned());
        maintenance.more = expired >= limit;
        if maintenance.more {
            tokio::time::sleep(pace(expired, self.expire_rate)).await;
        }
        maintenance
    }

    /// Asks for the size of the table, now and then.
    async fn look_at_usage(&self) {
        let is_fresh = |(at, _): &(Instant, Usage)| at.elapsed() < USAGE_EVERY;
        if lock(&self.usage).as_ref().is_some_and(is_fresh) {
            return;
        }
        let params = [Param::from(&*self.table.quoted)];
        let Ok(mut rows) = self.query(&self.statements.usage, &params).await else { return };
        let Some(row) = rows.first_mut() else { return };
        if let (Ok(Some(entries)), Ok(Some(bytes))) = (row.integer(), row.integer()) {
            let usage = Usage::new(entries.cast_unsigned(), bytes.cast_unsigned());
            *lock(&self.usage) = Some((Instant::now(), usage));
        }
    }
}

impl Store for PostgresStore {
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        StoreFuture::new(self.0.load(key))
    }

    fn swap<'a>(&'a self, key: &'a RecordKey, swap: Swap) -> Answer<'a, Swapped> {
        StoreFuture::new(async move { self.0.swap(key, &swap).await })
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.0.pool.timeout())
    }

    fn watch<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Watch> {
        StoreFuture::new(wakes::watch(&self.0, key))
    }

    fn scan<'a>(
        &'a self,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> Answer<'a, Page> {
        StoreFuture::new(self.0.scan(filter, after, limit))
    }

    fn on_freed(&self, listener: FreedListener) {
        self.0.wakes.on_freed(&self.0, listener);
    }

    fn announce_freed<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, ()> {
        StoreFuture::new(async move {
            if let Some(message) = wakes::freed(key) {
                let _ = self.0.wakes.send(&self.0, &message).await;
            }
        })
    }

    fn maintain(&self) -> StoreFuture<'_, Maintenance> {
        StoreFuture::new(self.0.maintain())
    }

    fn usage(&self) -> Option<Usage> {
        lock(&self.0.usage).map(|(_, usage)| usage)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PostgresStore")
            .field("table", &self.0.table.quoted)
            .field("pool", &self.0.pool)
            .field("pooled", &self.is_pooled())
            .finish_non_exhaustive()
    }
}
