//! Transactions of tokio-postgres, on connections of the store.

use super::postgres::begin;
use super::{Isolation, TransactionPool};
use crate::PostgresStore;
use crate::client::{Database, Preparation, Row, SqlConnection, SqlError, Statement};
use crate::dialect::postgres::NOTHING_WRITTEN;
use crate::postgres::Checkout;
use futures_util::future::{join, try_join};
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
    begun: Mutex<Option<Sent>>,
    /// The answer to the last statement before the commit, likewise.
    last: Mutex<Option<Sent>>,
    /// The store that the connection belongs to: it knows of a pooler.
    store: PostgresStore,
}

/// A statement that was sent, and not waited for.
type Sent = Pin<Box<dyn Future<Output = Result<(), SqlError>> + Send>>;

impl PostgresTransaction {
    /// Sends `BEGIN`, and does not wait for its answer: it comes with that to the next statement, and
    /// the two take one round trip. That statement must be harmless outside of a transaction: it is
    /// executed also if `BEGIN` is refused.
    async fn begin(store: &PostgresStore, isolation: Isolation) -> Result<Self, SqlError> {
        let checkout = store.inner().transaction().await?;
        let begun = sent(checkout.send(begin(isolation))).await?;
        Ok(Self { checkout, begun, last: Mutex::default(), store: store.clone() })
    }

    /// The answer to `BEGIN`, if nobody has waited for it.
    async fn begun(&mut self) -> Result<(), SqlError> {
        match taken(&mut self.begun) {
            Some(begun) => begun.await,
            None => Ok(()),
        }
    }

    /// A statement as the server keeps it: behind a pooler it keeps none.
    fn suited<'a>(&self, statement: Statement<'a>) -> Statement<'a> {
        match self.store.inner().preparation() {
            Preparation::Unnamed => Statement { preparation: Preparation::Unnamed, ..statement },
            Preparation::Named => statement,
        }
    }
}

/// Sends a statement, and does not wait for its answer. `None` if it is there already.
async fn sent(
    statement: impl Future<Output = Result<(), SqlError>> + Send + 'static,
) -> Result<Mutex<Option<Sent>>, SqlError> {
    let mut statement: Sent = Box::pin(statement);
    // Sent when it is polled for the first time.
    match poll_fn(|context| Poll::Ready(statement.as_mut().poll(context))).await {
        Poll::Pending => Ok(Mutex::new(Some(statement))),
        Poll::Ready(answer) => answer.map(|()| Mutex::default()),
    }
}

fn taken(sent: &mut Mutex<Option<Sent>>) -> Option<Sent> {
    sent.get_mut().unwrap_or_else(PoisonError::into_inner).take()
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
        let begun = taken(&mut self.begun);
        let answers = self.checkout.client_mut().query_each(&statements);
        let answers = match begun {
            Some(begun) => try_join(begun, answers).await.map(|((), rows)| rows),
            None => answers.await,
        };
        answers.inspect_err(|error| self.store.inner().notice(error))
    }

    // Its answer comes with that to `COMMIT`, and the two take one round trip.
    async fn query_last(&mut self, statement: Statement<'_>) -> Result<(), SqlError> {
        let statement = self.suited(statement);
        if statement.preparation == Preparation::Unnamed {
            return self.query(statement).await.map(drop);
        }
        self.begun().await?;
        let later = self.checkout.later(statement, COMMIT_PATIENCE).await;
        let later = later.inspect_err(|error| self.store.inner().notice(error))?;
        self.last = sent(later).await?;
        Ok(())
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
        let last = taken(&mut transaction.last);
        let commits = transaction.checkout.batch("COMMIT", COMMIT_PATIENCE);
        let Some(last) = last else { return commits.await };
        let (last, committed) = join(last, commits).await;
        // After a statement that failed, `COMMIT` rolls back, and reports no error.
        match last {
            Ok(()) => committed,
            // Another attempt has come first, as one does that makes a serialization fail; or it had
            // the table locked for longer than the body lets a statement wait.
            Err(error) if error.is(NOTHING_WRITTEN) || error.is("55P03") => {
                Err(SqlError::refused("40001", error))
            }
            Err(error) => {
                self.inner().notice(&error);
                Err(error)
            }
        }
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
