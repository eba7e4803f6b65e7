//! Pools of sqlx.

use super::{Isolation, TransactionPool};
use crate::client::{Database, SqlError, sqlx_error};
#[cfg(feature = "sqlx-postgres")]
use sqlx::AssertSqlSafe;
use sqlx::{Pool, Transaction};
#[cfg(feature = "sqlx-postgres")]
use std::time::Duration;

macro_rules! pool {
    ($feature:literal, $database:ident, $connection:ty, $begin:expr, $($more:item)*) => {
        #[cfg(feature = $feature)]
        impl TransactionPool for Pool<sqlx::$database> {
            type Transaction = Transaction<'static, sqlx::$database>;
            type Connection = $connection;

            fn database(&self) -> Database {
                Database::$database
            }

            async fn begin(&self, isolation: Isolation) -> Result<Self::Transaction, SqlError> {
                let begin: fn(Isolation) -> &'static str = $begin;
                let begun = Pool::begin_with(self, begin(isolation)).await;
                // Whatever came of it, nothing of it lasts.
                begun.map_err(sqlx_error)
            }

            $($more)*

            fn connection(transaction: &Self::Transaction) -> &$connection {
                transaction
            }

            fn connection_mut(transaction: &mut Self::Transaction) -> &mut $connection {
                transaction
            }

            async fn commit(&self, transaction: Self::Transaction) -> Result<(), SqlError> {
                transaction.commit().await.map_err(sqlx_error)
            }

            async fn roll_back(&self, transaction: Self::Transaction) {
                if let Err(error) = transaction.rollback().await {
                    tracing::debug!(target: "idempotent", %error, "rolled back by the server");
                }
            }
        }
    };
}

pool!(
    "sqlx-postgres",
    Postgres,
    sqlx::PgConnection,
    super::postgres::begin,
    async fn begin_with(
        &self,
        message: impl FnOnce() -> String + Send,
        patience: Duration,
    ) -> Option<Result<Self::Transaction, SqlError>> {
        // The pool has a limit of its own for the time in which a connection becomes free.
        let has_connection = self.num_idle() > 0;
        let (pool, message) = (self.clone(), AssertSqlSafe(message()));
        let mut begun = Box::pin(async move { Pool::begin_with(&pool, message).await });
        if !has_connection {
            return Some(begun.await.map_err(sqlx_error));
        }
        Some(match tokio::time::timeout(patience, &mut begun).await {
            Ok(begun) => begun.map_err(sqlx_error),
            // Dropped now, it would be an open transaction that sqlx knows nothing of. One that comes
            // about later is rolled back.
            Err(late) => {
                tokio::spawn(begun);
                Err(SqlError::lost(late))
            }
        })
    }
);
pool!("sqlx-sqlite", Sqlite, sqlx::SqliteConnection, |_| "BEGIN IMMEDIATE",);
// One message of two statements: the isolation is that of the next transaction only.
pool!("mysql", MySql, sqlx::MySqlConnection, |isolation| match isolation {
    Isolation::Default => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION",
    Isolation::RepeatableRead => {
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION"
    }
    Isolation::Serializable => "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; START TRANSACTION",
},);
