//! Database clients: the little that records need of a connection, and adapters to clients.
//!
//! [`SqlConnection`] runs a statement and returns its rows. Adapters exist for the transactions and
//! connections of sqlx and tokio-postgres; another client takes an implementation of about forty
//! lines, such as the one for SeaORM in `examples/sql/sea_orm.rs`.

mod error;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod literal;
#[cfg(feature = "sqlite")]
pub(crate) mod rusqlite;
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-sqlite", feature = "mysql"))]
mod sqlx;
#[cfg(feature = "postgres")]
mod tokio_postgres;
mod value;

#[cfg(feature = "mysql")]
pub(crate) use self::sqlx::read as read_row;
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-sqlite", feature = "mysql"))]
pub(crate) use self::sqlx::sql_error as sqlx_error;
pub use error::{SqlError, SqlErrorKind};
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use literal::script;
#[cfg(feature = "postgres")]
pub(crate) use tokio_postgres::{PostgresClient, sql_error};
pub use value::{Cell, Param, Row};

use std::future::Future;

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Database {
    /// PostgreSQL 15 and later.
    Postgres,
    /// SQLite 3.38 and later.
    Sqlite,
    /// MySQL 8 and MariaDB 10.6 and later.
    MySql,
}

/// A statement and its parameters.
///
/// The text is written in the placeholders of its database: `$1` for PostgreSQL, `?1` for SQLite,
/// `?` for MySQL. It selects only columns that are 64-bit integers, byte strings or texts.
#[derive(Clone, Copy, Debug)]
pub struct Statement<'a> {
    /// The text.
    pub text: &'a str,
    /// The parameters, in the order of their numbers.
    pub params: &'a [Param<'a>],
    /// The way in which the server is to keep the statement.
    pub preparation: Preparation,
}

/// The way in which a server keeps a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Preparation {
    /// Under a name, for the next use on the same connection.
    #[default]
    Named,
    /// Not at all: behind a pooler, the next use may be on another connection.
    Unnamed,
}

/// A connection to a database, inside or outside a transaction.
///
/// # Implementing
///
/// An implementation
///
/// * MUST run statements in order, and in the transaction that is open on the connection, if any;
/// * MUST keep the database's error code in the [`SqlError`], and MUST say whether the database
///   answered at all: an error that it sent is [`SqlError::refused`], anything else is
///   [`SqlError::lost`];
/// * MUST return integers of any width as [`Cell::Integer`];
/// * MAY run several statements in one round trip.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a connection that records can be kept through",
    label = "not an `idempotent_sql::client::SqlConnection`",
    note = "`sqlx` and `tokio-postgres` connections and transactions are, if the feature of the client is on; other clients implement the trait"
)]
pub trait SqlConnection: Send {
    /// The database at the other end.
    fn database(&self) -> Database;

    /// Runs a statement, and returns its rows.
    fn query(
        &mut self,
        statement: Statement<'_>,
    ) -> impl Future<Output = Result<Vec<Row>, SqlError>> + Send;

    /// Runs statements one after the other, until one fails. Returns the rows of each.
    ///
    /// Each statement sees what was committed before it began. The provided method takes a round
    /// trip for each.
    fn query_each(
        &mut self,
        statements: &[Statement<'_>],
    ) -> impl Future<Output = Result<Vec<Vec<Row>>, SqlError>> + Send {
        async move {
            let mut rows = Vec::with_capacity(statements.len());
            for statement in statements {
                rows.push(self.query(*statement).await?);
            }
            Ok(rows)
        }
    }

    /// Runs the last statement before a commit.
    ///
    /// It may return before the database has answered: the commit that follows then fails as the
    /// statement did.
    #[doc(hidden)]
    fn query_last(
        &mut self,
        statement: Statement<'_>,
    ) -> impl Future<Output = Result<(), SqlError>> + Send {
        async move { self.query(statement).await.map(drop) }
    }
}

impl<C: SqlConnection + ?Sized> SqlConnection for &mut C {
    fn database(&self) -> Database {
        (**self).database()
    }

    async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, SqlError> {
        (**self).query(statement).await
    }

    async fn query_each(
        &mut self,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>, SqlError> {
        (**self).query_each(statements).await
    }

    async fn query_last(&mut self, statement: Statement<'_>) -> Result<(), SqlError> {
        (**self).query_last(statement).await
    }
}
