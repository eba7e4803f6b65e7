//! Connections and transactions of sqlx.

#[cfg(any(feature = "sqlx-postgres", feature = "mysql"))]
use super::literal::script;
use super::{Cell, Database, Param, Preparation, Row, SqlConnection, SqlError, Statement};
#[cfg(any(feature = "sqlx-postgres", feature = "mysql"))]
use futures_util::TryStreamExt as _;
use sqlx::{AssertSqlSafe, TypeInfo as _, ValueRef as _};

pub(crate) fn sql_error(error: sqlx::Error) -> SqlError {
    match &error {
        sqlx::Error::Database(answer) => {
            let code = code(answer.as_ref());
            SqlError::refused(code, error)
        }
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Configuration(_) => {
            SqlError::not_sent(error)
        }
        _ => SqlError::lost(error),
    }
}

/// The SQLSTATE of PostgreSQL, the number of MySQL, the result code of SQLite.
fn code(error: &dyn sqlx::error::DatabaseError) -> String {
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return error.number().to_string();
    }
    error.code().unwrap_or_default().into_owned()
}

macro_rules! adapter {
    ($feature:literal, $database:ident, $connection:ty, $row:ty, $kind:expr, $batches:tt) => {
        #[cfg(feature = $feature)]
        impl SqlConnection for $connection {
            fn database(&self) -> Database {
                $kind
            }

            async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, SqlError> {
                let named = statement.preparation == Preparation::Named;
                let text = AssertSqlSafe(statement.text.to_owned());
                let mut query = sqlx::query::<sqlx::$database>(text).persistent(named);
                for param in statement.params {
                    query = match *param {
                        Param::Integer(value) => query.bind(value),
                        Param::Bytes(value) => query.bind(value.map(<[u8]>::to_vec)),
                        Param::Text(value) => query.bind(value.map(str::to_owned)),
                    };
                }
                let rows = query.fetch_all(&mut *self).await.map_err(sql_error)?;
                rows.iter().map(read).collect()
            }

            adapter!(@$batches $database, $kind);
        }

        #[cfg(feature = $feature)]
        impl SqlConnection for sqlx::Transaction<'_, sqlx::$database> {
            fn database(&self) -> Database {
                $kind
            }

            async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, SqlError> {
                SqlConnection::query(&mut **self, statement).await
            }

            async fn query_each(
                &mut self,
                statements: &[Statement<'_>],
            ) -> Result<Vec<Vec<Row>>, SqlError> {
                SqlConnection::query_each(&mut **self, statements).await
            }
        }

        #[cfg(feature = $feature)]
        impl SqlConnection for sqlx::pool::PoolConnection<sqlx::$database> {
            fn database(&self) -> Database {
                $kind
            }

            async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, SqlError> {
                SqlConnection::query(&mut **self, statement).await
            }

            async fn query_each(
                &mut self,
                statements: &[Statement<'_>],
            ) -> Result<Vec<Vec<Row>>, SqlError> {
                SqlConnection::query_each(&mut **self, statements).await
            }
        }
    };
    // In one message, with the parameters written into the statements.
    (@together $database:ident, $kind:expr) => {
        async fn query_each(
            &mut self,
            statements: &[Statement<'_>],
        ) -> Result<Vec<Vec<Row>>, SqlError> {
            let text = AssertSqlSafe(script($kind, statements));
            let mut answers = sqlx::raw_sql(text).fetch_many(&mut *self);
            let (mut all, mut rows) = (Vec::with_capacity(statements.len()), Vec::new());
            while let Some(answer) = answers.try_next().await.map_err(sql_error)? {
                match answer {
                    sqlx::Either::Left(_) => all.push(std::mem::take(&mut rows)),
                    sqlx::Either::Right(row) => rows.push(read(&row)?),
                }
            }
            Ok(all)
        }
    };
    (@apart $database:ident, $kind:expr) => {};
}

adapter!(
    "sqlx-postgres",
    Postgres,
    sqlx::PgConnection,
    sqlx::postgres::PgRow,
    Database::Postgres,
    together
);
adapter!(
    "sqlx-sqlite",
    Sqlite,
    sqlx::SqliteConnection,
    sqlx::sqlite::SqliteRow,
    Database::Sqlite,
    apart
);
adapter!("mysql", MySql, sqlx::MySqlConnection, sqlx::mysql::MySqlRow, Database::MySql, together);

/// A row, by the types of its columns.
pub(crate) fn read<R>(row: &R) -> Result<Row, SqlError>
where
    R: sqlx::Row,
    usize: sqlx::ColumnIndex<R>,
    for<'r> i64: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    for<'r> Vec<u8>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    for<'r> String: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    let cell = |at: usize| -> Result<Cell, sqlx::Error> {
        let raw = row.try_get_raw(at)?;
        if raw.is_null() {
            return Ok(Cell::Null);
        }
        // SQLite has types of values rather than of columns.
        let name = raw.type_info().name().to_ascii_uppercase();
        Ok(match &*name {
            "BYTEA" | "BLOB" | "VARBINARY" | "BINARY" | "LONGBLOB" | "MEDIUMBLOB" | "TINYBLOB" => {
                Cell::Bytes(row.try_get_unchecked(at)?)
            }
            name if name.contains("INT") || name == "BOOL" || name == "BOOLEAN" => {
                Cell::Integer(row.try_get_unchecked(at)?)
            }
            _ => Cell::Text(row.try_get_unchecked(at)?),
        })
    };
    let cells: Result<Vec<_>, _> = (0..row.columns().len()).map(cell).collect();
    cells.map(Row::new).map_err(|error| SqlError::unexpected(error.to_string()))
}
