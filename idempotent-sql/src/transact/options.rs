//! `transact`: an operation in a transaction of its own.

use super::claims::locks_store;
use super::table::{RecordTable, is_lost_race, is_refusal, store_error};
use super::{ClaimState, Claims, Lent, TransactionPool};
use crate::client::{Database, SqlConnection as _, SqlError, Statement};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{
    Claimed, CommitError, Committed, Loan, OpenTransaction, TransactionClaim, TransactionSource,
};
use idempotent_runtime::store::{Store, StoreError, Swap, Swapped, Token};
use idempotent_runtime::{AnswerPolicy, Error, Operation, Outcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

/// The isolation of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// That of the database: READ COMMITTED, or what SQLite has.
    #[default]
    Default,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE. A transaction that cannot be serialized is repeated, with its body.
    Serializable,
}

/// Transactional execution of an [`Operation`].
pub trait TransactExt<'a>: Sized {
    /// Runs `body` once per key, in a transaction: the record of its answer and the rows that it
    /// writes are committed together, or neither is.
    ///
    /// ```no_run
    /// # #[cfg(feature = "sqlx-postgres")]
    /// # mod example {
    /// # use idempotent_runtime::{Idempotency, Mode};
    /// # use sqlx::PgPool;
    /// # #[derive(Debug, thiserror::Error)]
    /// # #[error(transparent)]
    /// # enum OrderError { Sql(#[from] sqlx::Error), Refused(#[from] idempotent_runtime::Error) }
    /// use idempotent_sql::TransactExt as _;
    ///
    /// async fn create(idem: &Idempotency, pool: &PgPool, id: i64) -> Result<i64, OrderError> {
    ///     idem.operation("orders.create")
    ///         .key(id)
    ///         .mode(Mode::Strong)
    ///         .transact(pool, async |mut tx| {
    ///             let insert = "INSERT INTO orders (id) VALUES ($1)";
    ///             sqlx::query(insert).bind(id).execute(&mut *tx).await?;
    ///             Ok(id)
    ///         })
    ///         .await
    /// }
    /// # }
    /// ```
    ///
    /// The instance keeps its records in the database of the pool. The body writes through the
    /// transaction that it is lent, and does not commit it. An error rolls back what it wrote. It may
    /// be called again: a transaction that loses a race against another one is repeated, with its
    /// body, up to eight times.
    ///
    /// # Errors
    /// Those of the body, and refusals, by `E::from`: among them
    /// [`InProgress`](idempotent_runtime::ErrorKind::InProgress) while another transaction holds the
    /// key, and [`Indeterminate`](idempotent_runtime::ErrorKind::Indeterminate) if the commit was not
    /// answered and the database cannot tell what became of it. The next call with the key finds out.
    fn transact<'b, P, B, F, T, E>(self, pool: &P, body: B) -> Transact<'b, P, B, T, E>
    where
        'a: 'b,
        P: TransactionPool,
        B: FnMut(Lent<P>) -> F + Send + 'b,
        F: Future<Output = Result<T, E>> + Send + 'b,
        T: Serialize + DeserializeOwned + Send + 'b,
        E: From<Error> + Send + 'b;
}

impl<'a> TransactExt<'a> for Operation<'a> {
    fn transact<'b, P, B, F, T, E>(self, pool: &P, body: B) -> Transact<'b, P, B, T, E>
    where
        'a: 'b,
        P: TransactionPool,
        B: FnMut(Lent<P>) -> F + Send + 'b,
        F: Future<Output = Result<T, E>> + Send + 'b,
        T: Serialize + DeserializeOwned + Send + 'b,
        E: From<Error> + Send + 'b,
    {
        let (pool, isolation) = (pool.clone(), Isolation::Default);
        let answers = AnswerPolicy::kept();
        Transact { operation: self, pool, isolation, answers, repeats: |_| false, body }
    }
}

/// A call in a transaction, to be awaited. See [`TransactExt::transact`].
#[must_use = "a call does nothing until it is awaited"]
pub struct Transact<'a, P, B, T, E> {
    operation: Operation<'a>,
    pool: P,
    isolation: Isolation,
    answers: AnswerPolicy<T, E>,
    repeats: fn(&E) -> bool,
    body: B,
}

impl<'a, P, B, T, E> Transact<'a, P, B, T, E> {
    /// Sets the isolation of the transaction.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets the answers that are kept, and the errors that are final.
    pub fn answers(mut self, answers: AnswerPolicy<T, E>) -> Self {
        self.answers = answers;
        self
    }

    /// Repeats the transaction, with its body, if the body returns an error for which this holds:
    /// one of its statements lost a race. The code of such an error is 40001 or 40P01 on PostgreSQL,
    /// and 1213 on MySQL.
    pub fn repeat_if(mut self, repeats: fn(&E) -> bool) -> Self {
        self.repeats = repeats;
        self
    }
}

impl<'a, P, B, F, T, E> Transact<'a, P, B, T, E>
where
    P: TransactionPool,
    B: FnMut(Lent<P>) -> F + Send + 'a,
    F: Future<Output = Result<T, E>> + Send + 'a,
    T: Send + 'a,
    E: Send + 'a,
{
    /// Like awaiting it, and returns the origin of the value with it.
    pub fn detailed(self) -> impl Future<Output = Result<Outcome<T>, E>> + Send + 'a {
        let Self { operation, pool, isolation, answers, repeats, body } = self;
        operation.run_in_transaction(answers, Transactions { pool, isolation }, repeats, body)
    }
}

impl<'a, P, B, F, T, E> IntoFuture for Transact<'a, P, B, T, E>
where
    P: TransactionPool,
    B: FnMut(Lent<P>) -> F + Send + 'a,
    F: Future<Output = Result<T, E>> + Send + 'a,
    T: Send + 'a,
    E: Send + 'a,
{
    type Output = Result<T, E>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.detailed().await?.value) })
    }
}

impl<P, B, T, E> fmt::Debug for Transact<'_, P, B, T, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Transact")
            .field("operation", &self.operation)
            .field("isolation", &self.isolation)
            .finish_non_exhaustive()
    }
}

/// The transactions of a pool, for adapters that run their bodies in one: the HTTP layer's
/// `transactional`.
///
/// ```
/// # #[cfg(all(feature = "axum", feature = "sqlx-postgres"))]
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// use axum::Router;
/// use axum::http::StatusCode;
/// use axum::routing::post;
/// use idempotent_http::IdempotencyLayer;
/// use idempotent_runtime::Idempotency;
/// use idempotent_sql::{Lent, PostgresStore, Transactions};
/// use sqlx::PgPool;
///
/// /// The row and the response are committed together, or neither is.
/// async fn create_order(mut tx: Lent<PgPool>, item: String) -> Result<String, StatusCode> {
///     let id: i64 = sqlx::query_scalar("INSERT INTO orders (item) VALUES ($1) RETURNING id")
///         .bind(item)
///         .fetch_one(&mut *tx)
///         .await
///         .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
///     Ok(id.to_string())
/// }
///
/// let url = "postgres://localhost/shop";
/// let idem = Idempotency::builder().store(PostgresStore::connect(url).await?).build()?;
/// let pool = PgPool::connect(url).await?;
/// let layer = IdempotencyLayer::new(&idem, "shop").transactional(Transactions::of(&pool));
/// let app: Router = Router::new().route("/orders", post(create_order)).layer(layer);
/// # drop(app);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Transactions<P> {
    pool: P,
    isolation: Isolation,
}

impl<P: TransactionPool> Transactions<P> {
    /// The transactions that this pool begins.
    pub fn of(pool: &P) -> Self {
        Self { pool: pool.clone(), isolation: Isolation::Default }
    }

    /// Sets the isolation of the transactions.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }
}

impl<P: TransactionPool> Transactions<P> {
    fn opened(&self, begun: Result<P::Transaction, SqlError>) -> Result<Open<P>, StoreError> {
        match begun {
            Ok(transaction) => {
                let has_snapshot = self.isolation != Isolation::Default;
                let state = ClaimState { owned: true, has_snapshot, ..ClaimState::default() };
                Ok(Open { transaction, state })
            }
            // Whatever came of it, it is rolled back.
            Err(error) => Err(store_error(self.pool.database(), error)),
        }
    }
}

#[cfg(feature = "postgres")]
impl<P: TransactionPool> Transactions<P> {
    /// Begins a transaction that holds a key which has no record, in one message. `None` if the key is
    /// not expected to be new, or is not new.
    async fn begin_with_new_key(
        &self,
        claim: &TransactionClaim<'_>,
    ) -> Option<Result<Open<P>, StoreError>> {
        if self.isolation != Isolation::Default {
            return None;
        }
        let table = RecordTable::of(claim.store, self.pool.database()).ok()?;
        #[allow(irrefutable_let_patterns, reason = "the only database, maybe")]
        let RecordTable::Postgres(store) = table else { return None };
        let message = super::postgres::begin_with_new_key(&store, claim)?;
        let patience = claim.request.claim.lease();
        match self.pool.begin_with(message, patience).await? {
            // There is a record, or another transaction holds the key. Other errors come again.
            Err(error) if error.kind() == crate::client::SqlErrorKind::Refused => {
                store.inner().met_known();
                None
            }
            begun => Some(self.opened(begun).map(|mut open| {
                open.state.is_new = true;
                open
            })),
        }
    }
}

impl<P> fmt::Debug for Transactions<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Transactions")
            .field("isolation", &self.isolation)
            .finish_non_exhaustive()
    }
}

/// A transaction with the memory of its claim.
pub struct Open<P: TransactionPool> {
    pub(super) transaction: P::Transaction,
    pub(super) state: ClaimState,
}

impl<P: TransactionPool> fmt::Debug for Open<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Open").finish_non_exhaustive()
    }
}

impl<P: TransactionPool> OpenTransaction for Open<P> {
    fn locks_store(&self) -> bool {
        locks_store(self.transaction.database())
    }

    async fn claim(&mut self, claim: TransactionClaim<'_>) -> Result<Claimed, StoreError> {
        self.claims().claim(claim).await
    }

    async fn undo(&mut self) -> Result<(), StoreError> {
        self.claims().undo().await
    }

    async fn swap(&mut self, key: &RecordKey, swap: Swap) -> Result<Swapped, StoreError> {
        self.claims().swap(key, swap).await
    }
}

impl<P: TransactionPool> Open<P> {
    fn claims(&mut self) -> Claims<'_, P::Transaction> {
        Claims { connection: &mut self.transaction, state: &mut self.state }
    }
}

impl<P: TransactionPool> TransactionSource for Transactions<P> {
    type Transaction = Open<P>;
    type Lent = Lent<P>;

    async fn begin(&self) -> Result<Open<P>, StoreError> {
        self.opened(self.pool.begin(self.isolation).await)
    }

    async fn begin_for_claim(&self, claim: TransactionClaim<'_>) -> Result<Open<P>, StoreError> {
        #[cfg(feature = "postgres")]
        if let Some(begun) = self.begin_with_new_key(&claim).await {
            return begun;
        }
        #[cfg(not(feature = "postgres"))]
        let _ = claim;
        self.opened(self.pool.begin_for_claim(self.isolation).await)
    }

    fn lend(&self, open: Open<P>) -> (Lent<P>, Loan<Open<P>>) {
        let (kept, given) = Loan::new();
        (Lent::new(open.transaction, open.state, given), kept)
    }

    async fn commit(&self, mut open: Open<P>) -> Result<(), CommitError> {
        let database = open.transaction.database();
        // PostgreSQL rolls back in place of a COMMIT if a statement has failed before, and reports
        // no error. Where a record is written, that statement fails. Where there is none, this one.
        if database == Database::Postgres && open.state.table.is_none() {
            let probe = Statement { text: "SELECT 1", params: &[], preparation: <_>::default() };
            if let Err(error) = open.transaction.query_each(&[probe]).await {
                self.pool.roll_back(open.transaction).await;
                return Err(CommitError::Failed(store_error(database, error)));
            }
        }
        self.pool.commit(open.transaction).await.map_err(|error| commit_error(database, error))
    }

    async fn roll_back(&self, open: Open<P>) {
        self.pool.roll_back(open.transaction).await;
    }

    async fn find_out(
        &self,
        store: &dyn Store,
        key: &RecordKey,
        token: Token,
        patience: Duration,
    ) -> Result<Committed, StoreError> {
        // SQLite is asked without waiting.
        let _ = patience;
        match RecordTable::of(store, self.pool.database())? {
            #[cfg(feature = "postgres")]
            RecordTable::Postgres(store) => store.find_out(key, token, patience).await,
            #[cfg(feature = "sqlite")]
            RecordTable::Sqlite(store) => store.find_out(key, token).await,
            #[cfg(feature = "mysql")]
            RecordTable::MySql(store) => store.find_out(key, token, patience).await,
        }
    }
}

/// The meaning of an error that came in place of a commit.
fn commit_error(database: Database, error: SqlError) -> CommitError {
    match (is_refusal(database, &error), is_lost_race(database, &error)) {
        (true, true) => CommitError::LostRace(store_error(database, error)),
        (true, false) => CommitError::Failed(store_error(database, error)),
        (false, _) => CommitError::Unknown(store_error(database, error)),
    }
}
