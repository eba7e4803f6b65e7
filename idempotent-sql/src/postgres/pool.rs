//! The connections of a store: some for each runtime that uses it.
//!
//! A connection is driven by a task of the runtime that it was made on, and ends with it. So each
//! runtime has connections of its own, and a body that blocks its runtime does not hold up the
//! renewals, which are sent from another one.
//!
//! A statement has its connection to itself: one that waits for a row would hold up those behind
//! it. A statement whose caller goes away is finished by the server all the same, and keeps its
//! connection until then.

use super::errors::{is_refused_setting, store_error};
use super::lock;
use super::looks::{LookError, Looks};
use super::watchdog::{TooLate, Watchdog};
use crate::client::{
    Param, PostgresClient, Row, SqlConnection as _, SqlError, Statement, sql_error,
};
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Handle, Id};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Config, Connection, NoTls};

/// Options of connections.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) max_connections: usize,
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) lock_timeout: Duration,
    pub(super) application_name: String,
    pub(super) limits: Limits,
}

/// The limits that the server sets on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limits {
    /// Those of the store's own statements.
    Statements,
    /// None: bodies have statements of their own on it.
    None,
}

#[derive(Clone)]
pub(super) enum Tls {
    Off,
    #[cfg(feature = "postgres-tls")]
    On(tokio_postgres_rustls::MakeRustlsConnect),
}

/// Settings for the store's own statements. Each has one good plan, by an index. A plan that was made
/// while the table was empty would read the whole of it, until statistics are gathered again.
const PLANNING: &str = " -c plan_cache_mode=force_generic_plan -c enable_seqscan=off";

pub(super) struct Pool {
    config: Config,
    tls: Tls,
    settings: Settings,
    table: String,
    /// A pooler refuses the settings that connections are opened with.
    bare: AtomicBool,
    lanes: Mutex<HashMap<Id, Arc<Lane>>>,
}

/// The connections of one runtime.
struct Lane {
    idle: Mutex<Vec<PostgresClient>>,
    looks: Looks,
    permits: Arc<Semaphore>,
    watchdog: Arc<Watchdog>,
}

impl Pool {
    pub(super) fn new(config: Config, tls: Tls, settings: Settings, table: String) -> Self {
        let (bare, lanes) = (AtomicBool::new(false), Mutex::default());
        Self { config, tls, settings, table, bare, lanes }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// A connection, from those that are idle or made for this. Nothing has been sent when this
    /// fails.
    pub(super) async fn checkout(&self) -> Result<Checkout, StoreError> {
        let lane = self.lane()?;
        let permit = match Arc::clone(&lane.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait_for_permit(&lane).await?,
        };
        let idle = {
            let mut idle = lock(&lane.idle);
            loop {
                match idle.pop() {
                    Some(client) if client.client.is_closed() => {}
                    popped => break popped,
                }
            }
        };
        let client = match idle {
            Some(client) => client,
            None => self.connect(drop).await?,
        };
        let deadline = self.settings.timeout;
        let (client, permit) = (Some(client), Some(permit));
        Ok(Checkout { client, use_of: Use::Over, deadline, lane, permit })
    }

    async fn wait_for_permit(&self, lane: &Lane) -> Result<OwnedSemaphorePermit, StoreError> {
        let _waiting = lane.looks.make_way();
        let permit = timeout(self.settings.timeout, Arc::clone(&lane.permits).acquire_owned());
        match permit.await {
            Ok(Ok(permit)) => Ok(permit),
            _ => {
                let text = "all connections to PostgreSQL are in use";
                Err(StoreError::new(StoreErrorKind::Unavailable, text).without_effect())
            }
        }
    }

    /// Runs a statement that waits for nothing, on a connection that others of its kind may share. They
    /// all have the same text.
    pub(super) async fn look(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, LookError> {
        let lane = self.lane().map_err(LookError::NotSent)?;
        lane.looks.look(self, text, params).await
    }

    /// Makes a connection. `heard` gets the notifications that arrive on it.
    pub(super) async fn connect(
        &self,
        heard: impl FnMut(Option<AsyncMessage>) + Send + 'static,
    ) -> Result<PostgresClient, StoreError> {
        let connected = match self.open(heard).await {
            Ok(connected) => connected,
            Err((error, heard)) if is_refused_setting(&error) && !self.is_bare() => {
                self.bare.store(true, Relaxed);
                self.open(heard).await.map_err(|(error, _)| error)
            }
            .map_err(|error| self.refused(error))?,
            Err((error, _)) => return Err(self.refused(error)),
        };
        Ok(connected)
    }

    /// `true` if a pooler does not take the settings of connections.
    pub(super) fn is_bare(&self) -> bool {
        self.bare.load(Relaxed)
    }

    fn refused(&self, error: SqlError) -> StoreError {
        // The server asks for a password, and the URL has none.
        if error.code().is_empty() && error.to_string().contains("password missing") {
            let text = "PostgreSQL: the server asks for a password\nhelp: check the user and the \
                        password in the URL";
            return StoreError::new(StoreErrorKind::Misconfigured, text).with_source(error);
        }
        let error = match error.code() {
            "" => SqlError::not_sent(error),
            _ => error,
        };
        store_error(error, &self.table).without_effect()
    }

    async fn open<H>(&self, mut heard: H) -> Result<PostgresClient, (SqlError, H)>
    where
        H: FnMut(Option<AsyncMessage>) + Send + 'static,
    {
        let mut config = self.config.clone();
        config.connect_timeout(self.settings.connect_timeout);
        if config.get_application_name().is_none() {
            config.application_name(&self.settings.application_name);
        }
        if !self.is_bare() {
            // Beside those of the URL, which come later and win.
            let (timeout, lock_timeout, planning) = match self.settings.limits {
                Limits::Statements => (self.settings.timeout, self.settings.lock_timeout, PLANNING),
                Limits::None => (Duration::ZERO, Duration::ZERO, ""),
            };
            let own = format!(
                "-c default_transaction_isolation=read\\ committed{planning} \
                 -c statement_timeout={} -c lock_timeout={} \
                 -c idle_in_transaction_session_timeout={}",
                timeout.as_millis(),
                lock_timeout.as_millis(),
                timeout.as_millis(),
            );
            let options = [&*own, config.get_options().unwrap_or_default()].join(" ");
            config.options(options.trim_end());
        }
        let connects = async {
            match &self.tls {
                Tls::Off => {
                    let (client, connection) = config.connect(NoTls).await?;
                    Ok((client, Driven::new(connection)))
                }
                #[cfg(feature = "postgres-tls")]
                Tls::On(connector) => {
                    let (client, connection) = config.connect(connector.clone()).await?;
                    Ok((client, Driven::new(connection)))
                }
            }
        };
        let (client, mut connection) = match timeout(self.settings.connect_timeout, connects).await
        {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return Err((sql_error(error), heard)),
            Err(_) => return Err((SqlError::not_sent("no answer in time"), heard)),
        };
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| (connection.0)(context)).await {
                heard(Some(message));
            }
            heard(None);
        });
        Ok(PostgresClient::new(client, driver.abort_handle()))
    }

    fn lane(&self) -> Result<Arc<Lane>, StoreError> {
        let Ok(runtime) = Handle::try_current() else {
            let text = "PostgreSQL is asked outside of a tokio runtime\nhelp: call it from a task, \
                        or enter a runtime";
            return Err(StoreError::new(StoreErrorKind::Misconfigured, text));
        };
        let mut lanes = lock(&self.lanes);
        if let Some(lane) = lanes.get(&runtime.id()) {
            return Ok(Arc::clone(lane));
        }
        // Runtimes that have ended have closed their connections.
        lanes.retain(|_, lane| {
            Arc::strong_count(lane) > 1
                || lock(&lane.idle).iter().any(|client| !client.client.is_closed())
        });
        let permits = Arc::new(Semaphore::new(self.settings.max_connections));
        let watchdog = Watchdog::new(self.settings.timeout);
        let (idle, looks) = (Mutex::default(), Looks::default());
        let lane = Arc::new(Lane { idle, looks, permits, watchdog });
        lanes.insert(runtime.id(), Arc::clone(&lane));
        Ok(lane)
    }
}

type Polled = Poll<Option<Result<AsyncMessage, tokio_postgres::Error>>>;

/// A connection of any stream, encrypted or not.
struct Driven(Box<dyn FnMut(&mut Context<'_>) -> Polled + Send>);

impl Driven {
    fn new<S, T>(mut connection: Connection<S, T>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        Self(Box::new(move |context| connection.poll_message(context)))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Pool")
            .field("hosts", &self.config.get_hosts())
            .field("database", &self.config.get_dbname())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A connection in use. Dropped, it is idle again.
pub(crate) struct Checkout {
    client: Option<PostgresClient>,
    use_of: Use,
    deadline: Duration,
    lane: Arc<Lane>,
    permit: Option<OwnedSemaphorePermit>,
}

/// The state of the last statement on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// It was answered.
    Over,
    /// It was sent.
    UnderWay,
    /// It was not answered in time: the connection is closed at once.
    Silent,
    /// It belongs to a transaction, which ends with the connection.
    Lent,
}

impl Checkout {
    pub(super) async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, SqlError> {
        self.use_of = Use::UnderWay;
        let patience = self.patience();
        let watchdog = Arc::clone(&self.lane.watchdog);
        let answer = watchdog.within(patience, self.client_mut().query(statement)).await;
        self.use_of = if answer.is_ok() { Use::Over } else { Use::Silent };
        answer.unwrap_or_else(|_| Err(SqlError::lost("no answer in time")))
    }

    /// The time for which a statement is waited for: a little longer than the server's own limit, which
    /// says what happened.
    pub(super) fn patience(&self) -> Duration {
        self.deadline + self.deadline / 4
    }

    /// Prepares a statement, if that has not been done on this connection.
    pub(super) async fn prepare(
        &mut self,
        text: &str,
    ) -> Result<tokio_postgres::Statement, SqlError> {
        self.use_of = Use::UnderWay;
        let patience = self.patience();
        let watchdog = Arc::clone(&self.lane.watchdog);
        let answer = watchdog.within(patience, self.client_mut().prepare(text)).await;
        self.use_of = if answer.is_ok() { Use::Over } else { Use::Silent };
        answer.unwrap_or_else(|TooLate| Err(SqlError::lost("no answer in time")))
    }

    /// Runs a prepared statement, behind those that are under way.
    pub(super) async fn query_shared(
        &self,
        statement: &tokio_postgres::Statement,
        params: &[Param<'_>],
        patience: Duration,
    ) -> Result<Result<Vec<Row>, SqlError>, TooLate> {
        let answer = self.client().run_prepared(statement, params);
        self.lane.watchdog.within(patience, answer).await
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client().client.is_closed()
    }

    /// Notes that a statement was sent and its answer not taken.
    pub(super) fn under_way(&mut self) {
        self.use_of = Use::UnderWay;
    }

    /// Notes that a statement was not answered in time.
    pub(super) fn silent(&mut self) {
        self.use_of = Use::Silent;
    }

    /// Lends the connection to a transaction: it is closed when it is dropped, unless a
    /// [`batch`](Self::batch) has ended the transaction before.
    pub(crate) fn lend(&mut self) {
        if self.use_of != Use::Silent {
            self.use_of = Use::Lent;
        }
    }

    pub(crate) fn client(&self) -> &PostgresClient {
        match &self.client {
            Some(client) => client,
            None => unreachable!("it is taken when it is dropped"),
        }
    }

    pub(crate) fn client_mut(&mut self) -> &mut PostgresClient {
        match &mut self.client {
            Some(client) => client,
            None => unreachable!("it is taken when it is dropped"),
        }
    }

    /// A statement without parameters, whose answer can be waited for beside other statements. It is
    /// sent when it is polled for the first time.
    pub(crate) fn send(
        &self,
        statement: &'static str,
    ) -> impl Future<Output = Result<(), SqlError>> + Send + use<> {
        let (client, watchdog) = (Arc::clone(&self.client().client), &self.lane.watchdog);
        let (watchdog, patience) = (Arc::clone(watchdog), self.deadline);
        async move {
            let answer = watchdog.within(patience, client.batch_execute(statement)).await;
            let answer = answer.map(|answer| answer.map_err(sql_error));
            answer.unwrap_or_else(|TooLate| Err(SqlError::lost("no answer in time")))
        }
    }

    /// A statement whose answer can be waited for beside other statements, for so long at the most. It
    /// is sent when it is polled for the first time.
    pub(crate) async fn later(
        &mut self,
        statement: Statement<'_>,
        patience: Duration,
    ) -> Result<impl Future<Output = Result<(), SqlError>> + Send + use<>, SqlError> {
        let answer = self.client_mut().later(statement).await?;
        let watchdog = Arc::clone(&self.lane.watchdog);
        Ok(async move {
            let answer = watchdog.within(patience, answer).await;
            answer.unwrap_or_else(|TooLate| Err(SqlError::lost("no answer in time")))
        })
    }

    /// Runs several statements without parameters, for which the server may take so long.
    pub(crate) async fn batch(
        &mut self,
        statements: &str,
        patience: Duration,
    ) -> Result<(), SqlError> {
        self.use_of = Use::UnderWay;
        let patience = patience + self.deadline / 4;
        let answer = timeout(patience, self.client().client.batch_execute(statements)).await;
        self.use_of = if answer.is_ok() { Use::Over } else { Use::Silent };
        match answer {
            Ok(answer) => answer.map_err(sql_error),
            Err(_) => Err(SqlError::lost("no answer in time")),
        }
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let deadline = self.deadline;
        match (self.use_of, Handle::try_current()) {
            _ if client.client.is_closed() => {}
            (Use::Over, _) => lock(&self.lane.idle).push(client),
            // TCP gives up on a silent server after minutes or hours.
            (Use::Silent, _) | (_, Err(_)) => client.close(),
            // The server is told, and rolls back.
            (Use::Lent, Ok(runtime)) => {
                let driver = client.finish();
                runtime.spawn(async move {
                    tokio::time::sleep(deadline).await;
                    driver.abort();
                });
            }
            // Its caller went away. What it began is rolled back once it is answered.
            (Use::UnderWay, Ok(runtime)) => {
                let (lane, permit) = (Arc::clone(&self.lane), self.permit.take());
                runtime.spawn(async move {
                    let _permit = permit;
                    let rolls_back = client.client.batch_execute("ROLLBACK");
                    match timeout(deadline * 2, rolls_back).await {
                        Ok(Ok(())) => lock(&lane.idle).push(client),
                        Ok(Err(_)) | Err(_) => client.close(),
                    }
                });
            }
        }
    }
}
