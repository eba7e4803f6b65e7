//! Transactions of tokio-postgres, on connections of the store.

use super::postgres::begin;
use super::{Isolation, TransactionPool};
use crate::PostgresStore;
use crate::client::{Database, Preparation, Row, SqlConnection, SqlError, Statement};
use crate::postgres::Checkout;
use futures_util::future::try_join;
use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio_postgres::Client;

/// The time after which a commit counts as unanswered. A primary may wait for its replicas.
const COMMIT_PATIENCE: Duration = Duration::from_secs(60);

/// A transaction on a connection of a [`PostgresStore`], used as the client that it derefs to. Dropped,
/// it is rolled back, and its connection closed.
///
/// It gives out the client by reference only: `Client::transaction` would begin another transaction
/// inside this one, whose end would be the end of both.
///
/// ```compile_fail
/// # async fn run(mut tx: idempotent_sql::PostgresTransaction) {
/// let _nested = tx.transaction().await;
/// # }
/// ```
pub struct PostgresTransaction {
    checkout: Checkout,
    /// The answer to `BEGIN`, until a statement has waited for it. Never locked, since it is reached
    /// through `&mut` only; a future alone would not be `Sync`.
    begun: Mutex<Option<Begun>>,
    /// The store that the connection belongs to: it knows of a pooler.
    store: PostgresStore,
}

type Begun = Pin<Box<dyn Future<Output = Result<(), SqlError>> + Send>>;

impl PostgresTransaction {
    /// Sends `BEGIN`, and does not wait for its answer: it comes with that to the next statement, and
    /// the two take one round trip. That statement must be harmless outside of a transaction: it is
    /// executed also if `BEGIN` is refused.
    async fn begin(store: &PostgresStore, isolation: Isolation) -> Result<Self, SqlError> {
        let checkout = store.inner().transaction().await?;
        let mut begun: Begun = Box::pin(checkout.send(begin(isolation)));
        // Sent when it is polled for the first time.
        let begun = match poll_fn(|context| Poll::Ready(begun.as_mut().poll(context))).await {
            Poll::Pending => Some(begun),
            Poll::Ready(answer) => answer.map(|()| None)?,
        };
        Ok(Self { checkout, begun: Mutex::new(begun), store: store.clone() })
    }

    /// The answer to `BEGIN`, if nobody has waited for it.
    async fn begun(&mut self) -> Result<(), SqlError> {
        match self.take_begun() {
            Some(begun) => begun.await,
            None => Ok(()),
        }
    }

    fn take_begun(&mut self) -> Option<Begun> {
        self.begun.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A statement as the server keeps it: behind a pooler it keeps none.
    fn suited<'a>(&self, statement: Statement<'a>) -> Statement<'a> {
        match self.store.inner().preparation() {
            Preparation::Unnamed => Statement { preparation: Preparation::Unnamed, ..statement },
            Preparation::Named => statement,
        }
    }
}

impl Deref for PostgresTransaction {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.checkout.client().client
    }
}

impl SqlConnection for PostgresTransaction {
    fn database(&self) -> Database {
        Database::Postgres
    }

    async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, SqlError> {
        self.begun().await?;
        let statement = self.suited(statement);
        let answer = self.checkout.client_mut().query(statement).await;
        answer.inspect_err(|error| self.store.inner().notice(error))
    }

    async fn query_each(
        &mut self,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>, SqlError> {
        let statements: Vec<_> = statements.iter().map(|it| self.suited(*it)).collect();
        let begun = self.take_begun();
        let answers = self.checkout.client_mut().query_each(&statements);
        let answers = match begun {
            Some(begun) => try_join(begun, answers).await.map(|((), rows)| rows),
            None => answers.await,
        };
        answers.inspect_err(|error| self.store.inner().notice(error))
    }
}

impl TransactionPool for PostgresStore {
    type Transaction = PostgresTransaction;
    type Connection = PostgresTransaction;

    fn database(&self) -> Database {
        Database::Postgres
    }

    async fn begin(&self, isolation: Isolation) -> Result<PostgresTransaction, SqlError> {
        let mut transaction = self.begin_for_claim(isolation).await?;
        transaction.begun().await?;
        Ok(transaction)
    }

    async fn begin_for_claim(&self, isolation: Isolation) -> Result<PostgresTransaction, SqlError> {
        PostgresTransaction::begin(self, isolation).await
    }

    fn connection(transaction: &PostgresTransaction) -> &PostgresTransaction {
        transaction
    }

    fn connection_mut(transaction: &mut PostgresTransaction) -> &mut PostgresTransaction {
        transaction
    }

    async fn commit(&self, mut transaction: PostgresTransaction) -> Result<(), SqlError> {
        transaction.begun().await?;
        transaction.checkout.batch("COMMIT", COMMIT_PATIENCE).await
    }

    async fn roll_back(&self, mut transaction: PostgresTransaction) {
        let _ = transaction.checkout.batch("ROLLBACK", COMMIT_PATIENCE).await;
    }
}

impl fmt::Debug for PostgresTransaction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PostgresTransaction").finish_non_exhaustive()
    }
}
