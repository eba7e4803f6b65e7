//! Values with the version that they were read at.

use super::error::not_unique;
use super::transaction::bare;
use super::{EntityError, EntityKey, Identifier};
use crate::client::{Database, Param, Preparation, SqlConnection, Statement};
use std::ops::{Deref, DerefMut};

/// A table whose rows have a version: an integer column that every change counts up.
///
/// As a constant, its names are checked when the program is compiled:
///
/// ```
/// use idempotent_sql::entity::VersionedTable;
///
/// const STOCK: VersionedTable = VersionedTable::new("stock", "item", "version");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct VersionedTable {
    table: Identifier,
    key: Identifier,
    version: Identifier,
}

impl VersionedTable {
    /// A table, its key column and its version column.
    ///
    /// # Panics
    ///
    /// Panics if a name is not one of a table or column: letters, digits and `_`.
    pub const fn new(
        table: &'static str,
        key_column: &'static str,
        version_column: &'static str,
    ) -> Self {
        Self {
            table: Identifier::new(table),
            key: Identifier::new(key_column),
            version: Identifier::new(version_column),
        }
    }
}

/// A value with the version that it was read at.
///
/// [`save`](Self::save) writes it back only if the row still has that version, and uses the value
/// up: the next change begins by reading again.
///
/// Every writer of the row must count the version up, in one way or another. Value and version must
/// come from the same `SELECT`.
///
/// ```
/// # #[cfg(feature = "sqlx-sqlite")] {
/// # use sqlx::{Connection, SqliteConnection};
/// use idempotent_sql::entity::{Save, Versioned, VersionedTable};
///
/// const STOCK: VersionedTable = VersionedTable::new("stock", "item", "version");
///
/// async fn take_one(connection: &mut SqliteConnection) -> Result<i64, Box<dyn std::error::Error>> {
///     loop {
///         let (count, version): (i64, i64) =
///             sqlx::query_as("SELECT count, version FROM stock WHERE item = 'lamp'")
///                 .fetch_one(&mut *connection)
///                 .await?;
///         let mut count = Versioned::new(count, version);
///         *count -= 1;
///         let left = *count;
///         match count.save(connection, &STOCK, "lamp", |it| vec![("count", (*it).into())]).await? {
///             Save::Saved(_) => return Ok(left),
///             Save::Stale => continue,
///         }
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut connection = SqliteConnection::connect("sqlite::memory:").await?;
/// # sqlx::raw_sql("CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER NOT NULL, \
/// #     version INTEGER NOT NULL); INSERT INTO stock VALUES ('lamp', 5, 1)")
/// #     .execute(&mut connection).await?;
/// # assert_eq!(take_one(&mut connection).await?, 4);
/// # Ok(())
/// # }
/// # main().unwrap()
/// # }
/// ```
#[derive(Debug)]
pub struct Versioned<T> {
    value: T,
    version: i64,
}

/// The answer of [`Versioned::save`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a stale value is not saved"]
pub enum Save {
    /// The value is saved, and the row has this version.
    Saved(i64),
    /// The row has another version, or is gone. Nothing was changed: read it again.
    Stale,
}

impl<T> Versioned<T> {
    /// A value that was read together with its version.
    pub fn new(value: T, version: i64) -> Self {
        Self { value, version }
    }

    /// The version that the value was read at.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The value without its version, which then cannot be saved.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Writes the value into these columns of its row, if the row still has the version that it was
    /// read at, and counts the version up.
    ///
    /// One conditional `UPDATE`; no transaction is needed. Under REPEATABLE READ and above,
    /// PostgreSQL answers `40001` instead of [`Save::Stale`]: see
    /// [`EntityError::wants_new_transaction`].
    ///
    /// # Errors
    ///
    /// [`EntityErrorKind::Invalid`](super::EntityErrorKind::Invalid) for a column's name with other
    /// characters than letters, digits and `_`, and for a key that cannot be one.
    pub async fn save<'k, C: SqlConnection + ?Sized>(
        self,
        connection: &mut C,
        table: &VersionedTable,
        key: impl Into<EntityKey<'k>> + Send,
        columns: impl for<'a> FnOnce(&'a T) -> Vec<(&'static str, Param<'a>)> + Send,
    ) -> Result<Save, EntityError>
    where
        T: Send + Sync,
    {
        let key = key.into();
        key.check()?;
        let database = connection.database();
        let (mut params, mut changes) = (Vec::new(), String::new());
        for (name, param) in columns(&self.value) {
            let Some(column) = Identifier::check(name) else {
                return Err(EntityError::invalid(format!("`{name}` is not the name of a column")));
            };
            params.push(param);
            let place = place(database, params.len());
            changes.push_str(&format!("{} = {place}, ", column.quoted(database)));
        }
        params.extend([key.param(), Param::from(self.version)]);
        let count = params.len();
        let version = table.version.quoted(database);
        let mut text = format!(
            "UPDATE {} SET {changes}{version} = {version} + 1 WHERE {} = {} AND {version} = {}",
            table.table.quoted(database),
            table.key.quoted(database),
            key.placeholder(database, count - 1),
            place(database, count),
        );
        if database != Database::MySql {
            text.push_str(" RETURNING 1");
        }
        let statement = Statement { text: &text, params: &params, preparation: Preparation::Named };
        let mut rows = connection.query(statement).await?;
        if database == Database::MySql {
            rows = connection.query(bare("SELECT ROW_COUNT()")).await?;
        }
        let changed = match (database, rows.first_mut()) {
            (Database::MySql, Some(row)) => row.integer()?.unwrap_or_default(),
            _ => rows.len() as i64,
        };
        match changed {
            1 => Ok(Save::Saved(self.version + 1)),
            ..1 => Ok(Save::Stale),
            _ => Err(not_unique(table.table, table.key)),
        }
    }
}

fn place(database: Database, number: usize) -> String {
    match database {
        Database::Postgres => format!("${number}"),
        Database::Sqlite => format!("?{number}"),
        Database::MySql => "?".to_owned(),
    }
}

impl<T> Deref for Versioned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Versioned<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
