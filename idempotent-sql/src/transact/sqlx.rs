//! Pools of sqlx.

use super::{Isolation, TransactionPool};
use crate::client::{Database, SqlError, sqlx_error};
use sqlx::{Pool, Transaction};

macro_rules! pool {
    ($feature:literal, $database:ident, $connection:ty, $begin:expr) => {
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

pool!("sqlx-postgres", Postgres, sqlx::PgConnection, super::postgres::begin);
pool!("sqlx-sqlite", Sqlite, sqlx::SqliteConnection, |_| "BEGIN IMMEDIATE");
// One message of two statements: the isolation is that of the next transaction only.
pool!("mysql", MySql, sqlx::MySqlConnection, |isolation| match isolation {
    Isolation::Default => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION",
    Isolation::RepeatableRead => {
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION"
    }
    Isolation::Serializable => "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; START TRANSACTION",
});
