//! Attempts that end with a transaction, after work that is too long for one.

use super::claims::{ClaimState, Claims};
use super::table::RecordTable;
use crate::client::{Preparation, SqlConnection, SqlError, Statement};
use idempotent_runtime::protocol::{Commit, Completion, OpenTransaction as _};
use idempotent_runtime::store::Swapped;
use idempotent_runtime::{Attempt, Error};
use serde::Serialize;
use std::future::Future;

/// A transaction that can be committed: that of a pool of sqlx, or of tokio-postgres.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction that an attempt can be committed with",
    label = "not an `idempotent_sql::CommitTransaction`",
    note = "transactions of `sqlx` and `tokio-postgres` are, if the feature of the client is on; other clients implement the trait"
)]
pub trait CommitTransaction: SqlConnection + Send {
    /// Commits.
    fn commit(self) -> impl Future<Output = Result<(), SqlError>> + Send;

    /// Rolls back.
    fn roll_back(self) -> impl Future<Output = ()> + Send;
}

/// Ends an [`Attempt`] with a transaction.
pub trait CommitExt: Sized {
    /// Records a success as the last statement of a transaction, and commits it: the answer and
    /// what the transaction wrote are there together, or neither is.
    ///
    /// For work that takes too long for a transaction. The attempt holds its key by a lease while
    /// the work goes on, and the transaction is opened at the end of it. An attempt that has lost
    /// its key meanwhile cannot commit.
    ///
    /// ```no_run
    /// use idempotent_runtime::{Begin, Idempotency};
    /// use idempotent_sql::CommitExt as _;
    ///
    /// # async fn render(_: u64) -> String { String::new() }
    /// # async fn run(idem: Idempotency, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
    /// let report = idem.operation("reports.render").key(7);
    /// if let Begin::Fresh(attempt) = report.begin().await? {
    ///     let text = render(7).await; // takes minutes
    ///     let mut tx = pool.begin().await?;
    ///     sqlx::query("INSERT INTO reports (id, text) VALUES (7, $1)").bind(&text).execute(&mut *tx).await?;
    ///     attempt.commit(tx, &text.len()).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`Attempt::complete_with`].
    fn commit<T, X>(
        self,
        transaction: X,
        value: &T,
    ) -> impl Future<Output = Result<(), Error>> + Send
    where
        T: Serialize + Sync,
        X: CommitTransaction;
}

impl CommitExt for Attempt {
    async fn commit<T, X>(self, transaction: X, value: &T) -> Result<(), Error>
    where
        T: Serialize + Sync,
        X: CommitTransaction,
    {
        let table = RecordTable::of(self.store(), transaction.database());
        match table {
            Ok(table) => {
                self.complete_with(value, async move |completion| {
                    complete(transaction, table, completion).await
                })
                .await
            }
            Err(error) => Err(self.refused(error)),
        }
    }
}

async fn complete<X: CommitTransaction>(
    mut transaction: X,
    table: RecordTable,
    completion: Completion,
) -> Commit {
    let is_unprotected = completion.swap.is_none();
    if let Some(swap) = completion.swap {
        let mut state = ClaimState { table: Some(table), ..ClaimState::default() };
        let mut claims = Claims { connection: &mut transaction, state: &mut state };
        match claims.swap(&completion.key, swap).await {
            Ok(Swapped::Done | Swapped::DoneWithoutValue) => {}
            Ok(Swapped::Found(_)) => {
                transaction.roll_back().await;
                return Commit::Superseded;
            }
            // The key is freed, which finds out whether anything is there.
            Err(_) => {
                transaction.roll_back().await;
                return Commit::Unknown;
            }
        }
    }
    // PostgreSQL answers the commit of a transaction that has failed with a rollback, and no error.
    let probe = Statement { text: "SELECT 1", params: &[], preparation: Preparation::Unnamed };
    if is_unprotected && transaction.query(probe).await.is_err() {
        transaction.roll_back().await;
        return Commit::Unknown;
    }
    match transaction.commit().await {
        Ok(()) => Commit::Stored,
        Err(_) => Commit::Unknown,
    }
}

#[cfg(feature = "postgres")]
impl CommitTransaction for tokio_postgres::Transaction<'_> {
    async fn commit(self) -> Result<(), SqlError> {
        self.commit().await.map_err(crate::client::sql_error)
    }

    async fn roll_back(self) {
        let _ = self.rollback().await;
    }
}

macro_rules! sqlx_transaction {
    ($feature:literal, $database:ident) => {
        #[cfg(feature = $feature)]
        impl CommitTransaction for sqlx::Transaction<'_, sqlx::$database> {
            async fn commit(self) -> Result<(), SqlError> {
                self.commit().await.map_err(crate::client::sqlx_error)
            }

            async fn roll_back(self) {
                let _ = self.rollback().await;
            }
        }
    };
}

sqlx_transaction!("sqlx-postgres", Postgres);
sqlx_transaction!("sqlx-sqlite", Sqlite);
sqlx_transaction!("mysql", MySql);
