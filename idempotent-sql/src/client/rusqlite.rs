//! Values and errors of rusqlite, which runs statements on a thread of the store.

use super::{Cell, Param, Row, SqlError};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Error, ToSql, params_from_iter};

/// Runs a statement and returns its first row.
pub(crate) fn first_row(
    connection: &Connection,
    text: &str,
    params: &[Param<'_>],
) -> Result<Option<Row>, Error> {
    let mut statement = connection.prepare_cached(text)?;
    let columns = statement.column_count();
    let mut rows = statement.query(params_from_iter(params))?;
    match rows.next()? {
        Some(found) => {
            let found = row(found, columns)?;
            // A statement that writes has written when there is no further row.
            while rows.next()?.is_some() {}
            Ok(Some(found))
        }
        None => Ok(None),
    }
}

/// Runs a statement and returns its rows.
pub(crate) fn all_rows(
    connection: &Connection,
    text: &str,
    params: &[Param<'_>],
) -> Result<Vec<Row>, Error> {
    let mut statement = connection.prepare_cached(text)?;
    let columns = statement.column_count();
    let rows = statement.query_map(params_from_iter(params), |found| row(found, columns))?;
    rows.collect()
}

/// Runs a statement without rows, and returns the number of rows that it changed.
pub(crate) fn execute(
    connection: &Connection,
    text: &str,
    params: &[Param<'_>],
) -> Result<usize, Error> {
    connection.prepare_cached(text)?.execute(params_from_iter(params))
}

fn row(row: &rusqlite::Row<'_>, columns: usize) -> Result<Row, Error> {
    let cell = |at| {
        Ok(match row.get_ref(at)? {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(value) => Cell::Integer(value),
            ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
            ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
            // No column holds one: its reader finds that it does not fit.
            ValueRef::Real(value) => Cell::Text(value.to_string()),
        })
    };
    let cells: Result<Vec<_>, Error> = (0..columns).map(cell).collect();
    cells.map(Row::new)
}

/// The error with its extended result code.
pub(crate) fn sql_error(error: Error) -> SqlError {
    let code = error.sqlite_error().map(|error| error.extended_code.to_string());
    SqlError::refused(code.unwrap_or_default(), error)
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match *self {
            Param::Integer(Some(value)) => ToSqlOutput::from(value),
            Param::Bytes(Some(value)) => ToSqlOutput::from(value),
            Param::Text(Some(value)) => ToSqlOutput::from(value),
            Param::Integer(None) | Param::Bytes(None) | Param::Text(None) => {
                ToSqlOutput::from(rusqlite::types::Null)
            }
        })
    }
}
