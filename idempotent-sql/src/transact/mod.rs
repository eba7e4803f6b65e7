//! Transactional execution: the record and the rows of the body commit together.

mod claims;
#[cfg(feature = "axum")]
mod extract;
mod fenced;
mod lent;
#[cfg(feature = "mysql")]
mod mysql;
mod options;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-sqlite", feature = "mysql"))]
mod sqlx;
mod table;
#[cfg(feature = "postgres")]
mod tokio_postgres;

pub(crate) use claims::ClaimState;
pub(crate) use claims::Claims;
pub use fenced::{CommitExt, CommitTransaction};
pub use lent::Lent;
pub use options::{Isolation, Transact, TransactExt, Transactions};
#[cfg(feature = "postgres")]
pub use tokio_postgres::PostgresTransaction;

use crate::client::{Database, SqlConnection, SqlError};
use std::future::Future;
use std::time::Duration;

/// A database that begins transactions, for [`transact`](TransactExt::transact): a pool of sqlx, or
/// a [`PostgresStore`](crate::PostgresStore).
///
/// Other clients implement it, and [`SqlConnection`] for their connections, to have `transact`.
///
/// # Implementing
///
/// An implementation
///
/// * MUST begin with the isolation that it is given, which is `READ COMMITTED` on PostgreSQL and
///   MySQL for [`Isolation::Default`], or fail;
/// * MUST begin with `BEGIN IMMEDIATE` on SQLite, whose write lock holds the key;
/// * MUST roll back a transaction that is dropped;
/// * MUST tell errors apart as [`SqlConnection`] does, those of `commit` above all: one that is
///   [`SqlError::refused`] may end the call, and one that is [`SqlError::lost`] is looked into;
/// * MUST NOT let a body commit through [`Connection`](Self::Connection).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not begin transactions for `transact`",
    label = "not a pool that `transact` knows",
    note = "pools of `sqlx` are known if the feature of the database is on, such as `sqlx-postgres`, and so is `PostgresStore`; other clients implement `idempotent_sql::TransactionPool`"
)]
pub trait TransactionPool: Clone + Send + Sync + 'static {
    /// A transaction that is open. Dropped, it is rolled back.
    type Transaction: SqlConnection + Send + 'static;
    /// The part of it that a body may use: a connection, which cannot be committed.
    type Connection: ?Sized;

    /// The database.
    fn database(&self) -> Database;

    /// Begins a transaction that may write, with this isolation.
    fn begin(
        &self,
        isolation: Isolation,
    ) -> impl Future<Output = Result<Self::Transaction, SqlError>> + Send;

    /// Begins a transaction whose first statements claim a key. It may return before the database has
    /// answered: those statements fail if there is no transaction, and they write nothing.
    #[doc(hidden)]
    fn begin_for_claim(
        &self,
        isolation: Isolation,
    ) -> impl Future<Output = Result<Self::Transaction, SqlError>> + Send {
        self.begin(isolation)
    }

    /// Begins a transaction with a message of several statements, and fails if one of them does, or if
    /// the answer takes too long. `None` if the client cannot send such a message.
    #[doc(hidden)]
    fn begin_with(
        &self,
        message: impl FnOnce() -> String + Send,
        patience: Duration,
    ) -> impl Future<Output = Option<Result<Self::Transaction, SqlError>>> + Send {
        drop((message, patience));
        async { None }
    }

    /// The connection of a transaction.
    fn connection(transaction: &Self::Transaction) -> &Self::Connection;

    /// The connection of a transaction.
    fn connection_mut(transaction: &mut Self::Transaction) -> &mut Self::Connection;

    /// Commits.
    fn commit(
        &self,
        transaction: Self::Transaction,
    ) -> impl Future<Output = Result<(), SqlError>> + Send;

    /// Rolls back.
    fn roll_back(&self, transaction: Self::Transaction) -> impl Future<Output = ()> + Send;
}
