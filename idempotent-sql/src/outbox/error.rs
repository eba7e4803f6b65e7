//! Errors of the outbox.

use crate::client::{Database, SqlError, SqlErrorKind};
use std::error::Error as StdError;
use std::fmt;

/// An error of an [`Outbox`](super::Outbox).
#[derive(Debug)]
pub struct OutboxError {
    kind: OutboxErrorKind,
    text: String,
    source: Option<SqlError>,
}

/// The kind of an [`OutboxError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutboxErrorKind {
    /// The database refused a statement, or did not answer: see [`OutboxError::sql`].
    Sql,
    /// A message that cannot be sent. Nothing was written.
    Invalid,
    /// A table of the outbox is missing, or is not the one of
    /// [`Outbox::schema`](super::Outbox::schema).
    NotMigrated,
}

impl OutboxError {
    pub(super) fn new(kind: OutboxErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), source: None }
    }

    /// An error of a statement on the tables of an outbox.
    pub(super) fn of(database: Database, table: &str, error: SqlError) -> Self {
        let is_missing = match database {
            Database::Postgres => error.is("42P01") || error.is("42703"),
            Database::MySql => error.is("1146") || error.is("1054"),
            Database::Sqlite => error.is("1") && error.to_string().contains("no such"),
        };
        match is_missing {
            true => Self { source: Some(error), ..Self::not_migrated(table) },
            false => error.into(),
        }
    }

    pub(super) fn not_migrated(table: &str) -> Self {
        let text = format!(
            "the tables of the outbox `{table}` are missing or incomplete\nhelp: call \
             `Outbox::migrate`, or run the statements that `Outbox::schema` returns"
        );
        Self::new(OutboxErrorKind::NotMigrated, text)
    }

    /// The kind of the error.
    pub fn kind(&self) -> OutboxErrorKind {
        self.kind
    }

    /// The error of the database or of the connection, if there was one.
    pub fn sql(&self) -> Option<&SqlError> {
        self.source.as_ref()
    }

    /// `true` if the database gave up this transaction in favour of another one: roll back, and run
    /// the whole transaction again.
    pub fn wants_new_transaction(&self) -> bool {
        self.sql().is_some_and(is_lost_race)
    }
}

/// `true` if the database gave up a transaction in favour of another one.
pub(super) fn is_lost_race(error: &SqlError) -> bool {
    const CODES: [&str; 10] =
        ["40001", "40P01", "1213", "1205", "1020", "5", "261", "517", "6", "262"];
    error.kind() == SqlErrorKind::Refused && CODES.contains(&error.code())
}

impl From<SqlError> for OutboxError {
    fn from(error: SqlError) -> Self {
        Self { kind: OutboxErrorKind::Sql, text: error.to_string(), source: Some(error) }
    }
}

impl fmt::Display for OutboxError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl StdError for OutboxError {
    /// The causes of the database's error. Its own text is already that of this one.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().and_then(|error| error.source())
    }
}
