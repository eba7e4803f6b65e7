//! Records in MySQL and MariaDB.

mod builder;
pub(crate) mod errors;
mod pool;
mod server;
mod swaps;
mod wakes;

pub use builder::MySqlBuilder;

use crate::client::{Param, Preparation, Row, Statement};
use crate::columns::{KeyColumns, damaged, read_record};
use crate::dialect::mysql::{Statements, Table};
use crate::listing::{page, page_size, place};
use crate::store_parts::{USAGE_EVERY, lock, pace};
use errors::store_error;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::Committed;
use idempotent_runtime::store::{
    Answer, Cursor, Filter, Found, Maintenance, Page, Record, Store, StoreError, StoreFuture, Swap,
    Swapped, Token, Usage, Watch,
};
use pool::{Pool, Script};
use server::Server;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wakes::Wakes;

/// Records in a table of MySQL 8 or of MariaDB 10.6 and later.
///
/// ```no_run
/// use idempotent_runtime::Idempotency;
/// use idempotent_sql::MySqlStore;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MySqlStore::connect("mysql://app:password@localhost/shop").await?;
/// store.migrate().await?;
/// Idempotency::builder().store(store).build()?.install()?;
/// # Ok(()) }
/// ```
///
/// A first execution takes two round trips, one to begin and one to complete; a repeat call takes
/// one, which writes nothing and locks nothing. One that begins where an expired record has not been
/// removed yet takes a round trip more. Time is the server's, in UTC: time zones of sessions do not
/// matter.
///
/// # Connections
/// The store has connections of its own, up to [`max_connections`](MySqlBuilder::max_connections)
/// for each runtime that uses it: renewals never wait for a connection that a body holds. They are
/// opened when they are needed and kept. Their sessions are set to `READ COMMITTED` and to a strict
/// `sql_mode`, whatever the defaults of the server.
///
/// Connections are encrypted if a TLS feature of sqlx is on, such as `tls-rustls`, and the URL does
/// not say otherwise (`?ssl-mode=`). Without one, users that log in with `caching_sha2_password`,
/// the default of MySQL 8, are refused.
///
/// # Waiting
/// Callers that wait for another caller's answer are woken at once in the same process, and poll for
/// those of other processes.
///
/// # Sizes
/// A value is sent in digits, two for a byte: one of more than half of the server's
/// `max_allowed_packet` is not kept. The attempt then ends without its value.
#[derive(Clone)]
pub struct MySqlStore(Arc<Inner>);

struct Inner {
    table: Table,
    statements: Statements,
    pool: Pool,
    server: Server,
    wakes: Wakes,
    expire_batch: i64,
    expire_rate: u32,
    usage: Mutex<Option<(Instant, Usage)>>,
}

/// The number of times that a statement is sent again after it lost a race.
const ROUNDS: usize = 8;
/// The pause before a statement that found its row locked is sent again.
const LOCKED_PAUSE: Duration = Duration::from_millis(2);

/// The answer to a script.
#[derive(Debug)]
enum Ran {
    /// The rows of each statement.
    Answers(Vec<Vec<Row>>),
    /// A record with the key is there already. Nothing was written.
    Duplicate,
}

impl MySqlStore {
    /// Connects to a server by its URL, such as `mysql://user:password@host:3306/database`.
    ///
    /// # Errors
    /// The URL is invalid, or the server cannot be reached, refuses the user or the database, or is
    /// too old; or the table is there and is not one that records can be kept in.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder(url).connect().await
    }

    /// A store with further options.
    pub fn builder(url: &str) -> MySqlBuilder {
        MySqlBuilder::new(url)
    }

    /// Creates the table, unless it exists. Processes may do so at the same time.
    ///
    /// This needs a user that may create tables. One that may only `SELECT`, `INSERT`, `UPDATE` and
    /// `DELETE` is enough for everything else; the statements of [`schema`](Self::schema) can be run
    /// by another one.
    ///
    /// # Errors
    /// The user may not create tables, the table that is there is not one that records can be kept
    /// in, or the server does not answer.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let inner = &*self.0;
        for statement in self.schema() {
            let made = inner.pool.checkout().await?.run(&Script::text(&statement)).await;
            made.map_err(|error| store_error(error, &inner.table.quoted))?;
        }
        server::check_table(&inner.pool, &inner.statements, &inner.table).await
    }

    /// The statements that make the table, for migrations of your own.
    ///
    /// They change nothing where the table is there already.
    pub fn schema(&self) -> Vec<String> {
        crate::dialect::mysql::schema(&self.0.table)
    }

    /// The time that the server takes to query the table.
    ///
    /// # Errors
    /// The server does not answer, or the table is missing or may not be read.
    pub async fn health(&self) -> Result<Duration, StoreError> {
        let asked = Instant::now();
        let key: &[u8] = b"";
        self.0.query(&self.0.statements.load, &[key.into()]).await?;
        Ok(asked.elapsed())
    }

    pub(crate) fn statements(&self) -> &Statements {
        &self.0.statements
    }

    /// Finds out what became of a transaction whose commit was not answered: its row is locked until
    /// it is over.
    pub(crate) async fn find_out(
        &self,
        key: &RecordKey,
        token: Token,
        patience: Duration,
    ) -> Result<Committed, StoreError> {
        let name = KeyColumns::of(key);
        let name = [Param::from(&*name.name)];
        let look = [statement(&self.0.statements.look, &name)];
        self.0.run(&Script::transaction(&look), patience).await?;
        let found = self.0.load(key).await?;
        Ok(Committed::from_record(found.as_ref(), token))
    }

    /// The version of the server as it gave it, such as `8.4.3` or `10.11.6-MariaDB`.
    pub fn server_version(&self) -> &str {
        &self.0.server.version
    }
}

impl Inner {
    /// Runs a script, again if it lost a race, and for `patience` if its row is locked.
    async fn run(&self, script: &Script, patience: Duration) -> Result<Ran, StoreError> {
        let started = Instant::now();
        let mut round = 0;
        loop {
            let error = match self.pool.checkout().await?.run(script).await {
                Ok(answers) => return Ok(Ran::Answers(answers)),
                Err(error) => error,
            };
            round += 1;
            if errors::is_duplicate(&error) {
                return Ok(Ran::Duplicate);
            }
            if errors::is_locked(&error) && started.elapsed() < patience {
                tokio::time::sleep(LOCKED_PAUSE).await;
                continue;
            }
            let had_no_chance = errors::is_lost_race(&error) || errors::is_connection_over(&error);
            if !had_no_chance || round >= ROUNDS {
                return Err(store_error(error, &self.table.quoted));
            }
        }
    }

    /// Runs a statement that reads.
    async fn query(&self, text: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        // There is no statement after it that commits.
        let script = Script::single(&[statement(text, params)], 1);
        match self.run(&script, Duration::ZERO).await? {
            Ran::Answers(answers) => Ok(answers.into_iter().next().unwrap_or_default()),
            Ran::Duplicate => Ok(Vec::new()),
        }
    }

    async fn load(&self, key: &RecordKey) -> Result<Option<Record>, StoreError> {
        let key = KeyColumns::of(key);
        let mut rows = self.query(&self.statements.load, &[(&*key.name).into()]).await?;
        let Some(row) = rows.first_mut() else { return Ok(None) };
        let Found { head, value, ttl } = read_record(row).map_err(damaged)?;
        Ok(Some(Record::new(head, value, ttl.unwrap_or_default())))
    }

    async fn scan(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let limit = page_size(limit);
        let after = place(after)?;
        let params = [after.as_slice().into(), Param::Integer(i64::try_from(limit).ok())];
        page(self.query(&self.statements.scan, &params).await?, filter, limit)
    }

    async fn maintain(&self) -> Maintenance {
        let limit = self.expire_batch;
        let expired = match self.expire(limit).await {
            Ok(expired) => expired,
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

    async fn expire(&self, limit: i64) -> Result<i64, StoreError> {
        let limit = [limit.into()];
        let Statements { expire, written, .. } = &self.statements;
        let script = Script::single(&[statement(expire, &limit), statement(written, &[])], 0);
        match self.run(&script, Duration::ZERO).await? {
            Ran::Answers(mut answers) => swaps::written(answers.get_mut(1)),
            Ran::Duplicate => Ok(0),
        }
    }

    /// Asks for the size of the table, now and then.
    async fn look_at_usage(&self) {
        let is_fresh = |(at, _): &(Instant, Usage)| at.elapsed() < USAGE_EVERY;
        if lock(&self.usage).as_ref().is_some_and(is_fresh) {
            return;
        }
        let Ok(mut rows) = self.query(&self.statements.usage, &[]).await else { return };
        let Some(row) = rows.first_mut() else { return };
        if let (Ok(Some(entries)), Ok(Some(bytes))) = (row.integer(), row.integer()) {
            let usage = Usage::new(entries.cast_unsigned(), bytes.cast_unsigned());
            *lock(&self.usage) = Some((Instant::now(), usage));
        }
    }
}

fn statement<'a>(text: &'a str, params: &'a [Param<'a>]) -> Statement<'a> {
    Statement { text, params, preparation: Preparation::Unnamed }
}

impl Store for MySqlStore {
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        StoreFuture::new(self.0.load(key))
    }

    fn swap<'a>(&'a self, key: &'a RecordKey, swap: Swap) -> Answer<'a, Swapped> {
        StoreFuture::new(async move { self.0.swap(key, swap).await })
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.0.pool.settings().timeout)
    }

    fn watch<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Watch> {
        StoreFuture::ready(Ok(self.0.wakes.watch(key)))
    }

    fn scan<'a>(
        &'a self,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> Answer<'a, Page> {
        StoreFuture::new(self.0.scan(filter, after, limit))
    }

    fn maintain(&self) -> StoreFuture<'_, Maintenance> {
        StoreFuture::new(self.0.maintain())
    }

    fn usage(&self) -> Option<Usage> {
        lock(&self.0.usage).map(|(_, usage)| usage)
    }
}

impl fmt::Debug for MySqlStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MySqlStore")
            .field("table", &self.0.table.quoted)
            .field("pool", &self.0.pool)
            .field("server", &self.0.server)
            .finish_non_exhaustive()
    }
}
