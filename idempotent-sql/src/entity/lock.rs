//! Row locks.

use super::transaction::{PROBE, bare, explain, require};
use super::{EntityError, EntityKey, Identifier};
use crate::client::{Database, Preparation, SqlConnection, Statement};

/// The answer of [`lock`](lock()).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a row that is not there is not locked"]
pub enum Lock {
    /// The row is locked until the transaction ends.
    Locked,
    /// There is no row with this key.
    NotFound,
}

/// Locks a row until the transaction ends: other callers that lock or change it wait until then.
///
/// Read the row after this call, not before it: only then is it known not to change. Rows that are
/// locked in different orders by two transactions can deadlock; the database ends one of them, see
/// [`EntityError::wants_new_transaction`].
///
/// | database | the lock | readers |
/// | --- | --- | --- |
/// | PostgreSQL | `FOR NO KEY UPDATE`: rows that refer to this one can still be inserted | do not wait |
/// | MySQL, MariaDB | `FOR UPDATE` | do not wait |
/// | SQLite | the write lock of the whole file | do not wait in WAL mode |
///
/// MySQL and MariaDB read from a snapshot under REPEATABLE READ, their default: a row that was read
/// in this transaction before the lock is shown as it was then. Lock first, or use READ COMMITTED.
/// Under REPEATABLE READ, PostgreSQL refuses with `40001` to lock a row that has changed since the
/// transaction's first statement. A SQLite transaction that was begun with plain `BEGIN` and has
/// read already is refused in the same way (`517`); `BEGIN IMMEDIATE` never is.
///
/// # Errors
///
/// [`EntityErrorKind::NoTransaction`](super::EntityErrorKind::NoTransaction) if no transaction is
/// open: the lock would be gone when the call returns.
///
/// # Panics
///
/// Panics if a name is not one of a table or column: letters, digits and `_`.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "sqlx-sqlite")] {
/// # use idempotent_sql::entity::{Lock, lock};
/// # use sqlx::{Connection, SqliteConnection};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut connection = SqliteConnection::connect("sqlite::memory:").await?;
/// # sqlx::raw_sql("CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER NOT NULL); \
/// #                INSERT INTO stock VALUES ('lamp', 5)").execute(&mut connection).await?;
/// let mut tx = connection.begin().await?;
/// if lock(&mut tx, "stock", "item", "lamp").await? == Lock::NotFound {
///     return Err("no such item".into());
/// }
/// let count: i64 = sqlx::query_scalar("SELECT count FROM stock WHERE item = 'lamp'")
///     .fetch_one(&mut *tx)
///     .await?;
/// sqlx::query("UPDATE stock SET count = ? WHERE item = 'lamp'")
///     .bind(count - 1)
///     .execute(&mut *tx)
///     .await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// # main().unwrap()
/// # }
/// ```
pub async fn lock<'k, C: SqlConnection + ?Sized>(
    connection: &mut C,
    table: &'static str,
    key_column: &'static str,
    key: impl Into<EntityKey<'k>> + Send,
) -> Result<Lock, EntityError> {
    let (table, column) = (Identifier::new(table), Identifier::new(key_column));
    let key = key.into();
    key.check()?;
    let database = connection.database();
    let (table, column) = (table.quoted(database), column.quoted(database));
    let place = key.placeholder(database, 1);
    let found = format!("SELECT 1 FROM {table} WHERE {column} = {place}");
    let params = [key.param()];
    let statement = |text| Statement { text, params: &params, preparation: Preparation::Named };
    let rows = match database {
        Database::Postgres => {
            let text = format!("{found} FOR NO KEY UPDATE");
            // The probe and the lock in one round trip.
            let statements = [bare(PROBE[0]), bare(PROBE[1]), statement(&text)];
            let answers = connection.query_each(&statements).await;
            answers.map_err(|error| explain(error, "lock"))?.pop().unwrap_or_default()
        }
        Database::MySql => {
            require(connection, "lock").await?;
            connection.query(statement(&format!("{found} FOR UPDATE"))).await?
        }
        Database::Sqlite => {
            require(connection, "lock").await?;
            // Changes no row, and takes the write lock unless `BEGIN IMMEDIATE` has.
            let write = format!("UPDATE {table} SET {column} = {column} WHERE false");
            connection.query(bare(&write)).await?;
            connection.query(statement(&found)).await?
        }
    };
    Ok(if rows.is_empty() { Lock::NotFound } else { Lock::Locked })
}
