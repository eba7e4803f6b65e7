//! The connections of a store: some for each runtime that uses it.
//!
//! A connection belongs to the runtime that it was made on, and ends with it. So each runtime has
//! connections of its own, and a body that blocks its runtime does not hold up the renewals, which
//! are sent from another one.
//!
//! A caller that goes away leaves a connection in the middle of an answer. Scripts are therefore run
//! by tasks, which read the whole answer whether or not it is still wanted, and roll back what an
//! error has left open before the connection is idle again.

use super::errors::{is_before_commit, is_connection_over, store_error};
use crate::client::{
    Database, Row, SqlError, SqlErrorKind, Statement, read_row, script, sqlx_error,
};
use crate::store_parts::lock;
use futures_util::TryStreamExt as _;
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Either, MySqlConnection};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Id};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

/// The time after which an idle connection is asked whether it still works before it is used.
const ASK_AFTER: Duration = Duration::from_secs(5);

/// Options of connections.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) max_connections: usize,
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) lock_timeout: Duration,
}

/// Statements that are sent as one message.
#[derive(Clone, Debug)]
pub(super) struct Script {
    text: Arc<str>,
    /// The place of the statement that commits, from zero. Statements before it have no effect if one
    /// of them fails, and those after it change nothing.
    commits_at: usize,
    opens: Opens,
}

/// The state of a connection when a script has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opens {
    Nothing,
    Transaction,
}

impl Script {
    /// Statements that commit by themselves. That at `commits_at` writes, the others read.
    pub(super) fn single(statements: &[Statement<'_>], commits_at: usize) -> Self {
        let text = script(Database::MySql, statements).into();
        Self { text, commits_at, opens: Opens::Nothing }
    }

    /// Statements in a transaction.
    pub(super) fn transaction(statements: &[Statement<'_>]) -> Self {
        let text = script(Database::MySql, statements);
        let text = format!("START TRANSACTION; {text}; COMMIT").into();
        Self { text, commits_at: statements.len() + 1, opens: Opens::Transaction }
    }

    /// A statement without parameters.
    pub(super) fn text(text: &str) -> Self {
        Self { text: text.into(), commits_at: 0, opens: Opens::Nothing }
    }

    /// An error that came after so many answers: [`Refused`](SqlErrorKind::Refused) if nothing can
    /// have been committed.
    fn judge(&self, error: SqlError, answered: usize) -> SqlError {
        let is_undone =
            answered < self.commits_at || answered == self.commits_at && is_before_commit(&error);
        match error.kind() {
            SqlErrorKind::Refused if !is_undone => SqlError::lost(error),
            _ => error,
        }
    }

    /// The bytes of the message.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }
}

pub(super) struct Pool {
    options: MySqlConnectOptions,
    settings: Settings,
    table: String,
    lanes: Mutex<HashMap<Id, Arc<Lane>>>,
}

/// The connections of one runtime.
struct Lane {
    idle: Mutex<Vec<Idle>>,
    permits: Arc<Semaphore>,
    /// Closed when the runtime has ended: the other end is held by one of its tasks.
    runtime: oneshot::Sender<()>,
}

struct Idle {
    connection: MySqlConnection,
    since: Instant,
}

impl Pool {
    pub(super) fn new(options: MySqlConnectOptions, settings: Settings, table: String) -> Self {
        // Statements hold keys and values: they are not logged. What connections need is set by
        // `session`.
        let options = options
            .disable_statement_logging()
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(None)
            .set_names(false);
        Self { options, settings, table, lanes: Mutex::default() }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A connection, from those that are idle or made for this. Nothing has been sent when this
    /// fails.
    pub(super) async fn checkout(&self) -> Result<Checkout, StoreError> {
        let lane = self.lane()?;
        let permit = timeout(self.settings.timeout, Arc::clone(&lane.permits).acquire_owned());
        let Ok(Ok(permit)) = permit.await else {
            let text = "all connections to MySQL are in use";
            return Err(StoreError::new(StoreErrorKind::Unavailable, text).without_effect());
        };
        let idle = lock(&lane.idle).pop();
        let connection = match idle {
            Some(Idle { connection, since }) if since.elapsed() < ASK_AFTER => connection,
            Some(Idle { mut connection, .. }) => {
                match timeout(self.settings.timeout, connection.ping()).await {
                    Ok(Ok(())) => connection,
                    Ok(Err(_)) | Err(_) => self.connect().await?,
                }
            }
            None => self.connect().await?,
        };
        // A little longer than the server's own limit, which says what happened.
        let deadline = self.settings.timeout + self.settings.timeout / 4;
        Ok(Checkout { connection: Some(connection), deadline, lane, _permit: permit })
    }

    async fn connect(&self) -> Result<MySqlConnection, StoreError> {
        let connecting = async {
            let mut connection = self.options.connect().await.map_err(sqlx_error)?;
            run(&mut connection, &Script::text(&session(&self.settings))).await?;
            Ok(connection)
        };
        let connected: Result<_, SqlError> =
            match timeout(self.settings.connect_timeout, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(SqlError::not_sent("no answer in time")),
            };
        connected.map_err(|error| {
            let error = match error.kind() {
                SqlErrorKind::Refused => error,
                _ => SqlError::not_sent(error),
            };
            store_error(error, &self.table).without_effect()
        })
    }

    fn lane(&self) -> Result<Arc<Lane>, StoreError> {
        let Ok(runtime) = Handle::try_current() else {
            let text = "MySQL is asked outside of a tokio runtime\nhelp: call it from a task, or \
                        enter a runtime";
            return Err(StoreError::new(StoreErrorKind::Misconfigured, text));
        };
        let mut lanes = lock(&self.lanes);
        // The number of a runtime that has ended is given to another one.
        if let Some(lane) = lanes.get(&runtime.id()).filter(|lane| !lane.runtime.is_closed()) {
            return Ok(Arc::clone(lane));
        }
        lanes.retain(|_, lane| !lane.runtime.is_closed());
        let (alive, ended) = oneshot::channel();
        runtime.spawn(async move {
            // Until the lane is dropped, or the runtime ends and this task with it.
            let _ = ended.await;
        });
        let permits = Arc::new(Semaphore::new(self.settings.max_connections));
        let lane = Arc::new(Lane { idle: Mutex::default(), permits, runtime: alive });
        lanes.insert(runtime.id(), Arc::clone(&lane));
        Ok(lane)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Pool")
            .field("host", &self.options.get_host())
            .field("database", &self.options.get_database())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// The statements that make a session independent of the server's defaults.
///
/// Statements commit by themselves, a `COMMIT` opens no further transaction, a value that does not
/// fit is an error, and waits for rows and for the table end.
fn session(settings: &Settings) -> String {
    let Settings { timeout, lock_timeout, .. } = settings;
    // Whole seconds, and at least one.
    let wait = lock_timeout.as_millis().div_ceil(1_000).max(1);
    format!(
        "SET NAMES utf8mb4; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; \
         SET SESSION autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
         completion_type = 0, sql_safe_updates = 0, \
         sql_select_limit = 18446744073709551615, wait_timeout = 28800, \
         innodb_lock_wait_timeout = {wait}, lock_wait_timeout = {wait} \
         /*M!100600 , max_statement_time = {seconds} */ \
         /*!80000 , max_execution_time = {millis}, information_schema_stats_expiry = 0 */",
        seconds = timeout.as_secs_f64(),
        millis = timeout.as_millis(),
    )
}

/// A connection in use. Dropped, it is idle again.
pub(super) struct Checkout {
    /// Taken while a script runs: one that is dropped in the middle of it is closed.
    connection: Option<MySqlConnection>,
    deadline: Duration,
    lane: Arc<Lane>,
    _permit: OwnedSemaphorePermit,
}

impl Checkout {
    /// Runs a script to its end, whether or not the caller still waits for it. Returns the rows of
    /// each statement.
    pub(super) async fn run(self, script: &Script) -> Result<Vec<Vec<Row>>, SqlError> {
        let script = script.clone();
        match tokio::spawn(self.run_here(script)).await {
            Ok(answer) => answer,
            Err(ended) => Err(SqlError::lost(ended)),
        }
    }

    async fn run_here(mut self, script: Script) -> Result<Vec<Vec<Row>>, SqlError> {
        let Some(mut connection) = self.connection.take() else {
            return Err(SqlError::not_sent("closed"));
        };
        let answer = match timeout(self.deadline, run(&mut connection, &script)).await {
            Ok(answer) => answer,
            Err(_) => Err(SqlError::lost("no answer in time")),
        };
        match &answer {
            Ok(_) => self.connection = Some(connection),
            Err(error) if error.kind() == SqlErrorKind::Refused && !is_connection_over(error) => {
                // After most errors the transaction is still open.
                let is_usable = script.opens == Opens::Nothing || {
                    let rollback = sqlx::raw_sql("ROLLBACK").execute(&mut connection);
                    matches!(timeout(self.deadline, rollback).await, Ok(Ok(_)))
                };
                if is_usable {
                    self.connection = Some(connection);
                }
            }
            // Those that are idle are likely lost in the same way.
            Err(_) => lock(&self.lane.idle).clear(),
        }
        answer
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            lock(&self.lane.idle).push(Idle { connection, since: Instant::now() });
        }
    }
}

/// Sends a script and reads the answers. An error of the kind [`Refused`](SqlErrorKind::Refused)
/// means that nothing was committed, and that nothing will be once the transaction is rolled back.
async fn run(connection: &mut MySqlConnection, script: &Script) -> Result<Vec<Vec<Row>>, SqlError> {
    let text = AssertSqlSafe(Arc::clone(&script.text));
    let mut answers = sqlx::raw_sql(text).fetch_many(connection);
    let (mut all, mut rows) = (Vec::with_capacity(script.commits_at + 2), Vec::new());
    loop {
        let error = match answers.try_next().await {
            Ok(Some(Either::Left(_))) => {
                all.push(std::mem::take(&mut rows));
                continue;
            }
            Ok(Some(Either::Right(row))) => {
                rows.push(read_row(&row)?);
                continue;
            }
            Ok(None) => return Ok(all),
            Err(error) => sqlx_error(error),
        };
        return Err(script.judge(error, all.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_at_or_behind_the_commit_may_have_had_an_effect() {
        let script = Script { text: "".into(), commits_at: 1, opens: Opens::Nothing };
        let kind =
            |code: &str, answered| script.judge(SqlError::refused(code, "text"), answered).kind();
        // Before the commit nothing has happened, whatever the error.
        assert_eq!(kind("1317", 0), SqlErrorKind::Refused);
        // An interrupted one may be on disk; a duplicate is not.
        assert_eq!(kind("1317", 1), SqlErrorKind::Lost);
        assert_eq!(kind("1062", 1), SqlErrorKind::Refused);
        assert_eq!(kind("1062", 2), SqlErrorKind::Lost);
    }
}
