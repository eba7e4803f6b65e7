//! Errors of state machines, locks and versions.

use super::Identifier;
use crate::client::{SqlError, SqlErrorKind};
use std::error::Error as StdError;
use std::fmt;

/// An error of a [`StateMachine`](crate::StateMachine), of [`lock`](super::lock()) or of
/// [`Versioned`](super::Versioned).
#[derive(Debug)]
pub struct EntityError {
    kind: EntityErrorKind,
    text: String,
    source: Option<SqlError>,
}

/// The kind of an [`EntityError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntityErrorKind {
    /// The database refused a statement, or did not answer: see [`EntityError::sql`].
    Sql,
    /// The connection has no open transaction, and the call needs one. Nothing was changed.
    NoTransaction,
    /// A key, an id or a name that cannot be used. Nothing was sent.
    Invalid,
    /// The row has a state that the type does not have. Nothing was changed.
    UnknownState,
    /// The key column has this key more than once. The transaction must be rolled back.
    NotUnique,
}

impl EntityError {
    pub(crate) fn new(kind: EntityErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), source: None }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(EntityErrorKind::Invalid, text)
    }

    /// The same error with another line.
    pub(crate) fn with_help(mut self, help: &str) -> Self {
        self.text = format!("{}\nhelp: {help}", self.text);
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> EntityErrorKind {
        self.kind
    }

    /// The error of the database or of the connection, if there was one.
    pub fn sql(&self) -> Option<&SqlError> {
        self.source.as_ref()
    }

    /// `true` if the database gave up this transaction in favour of another one: roll back, and
    /// run the whole transaction again.
    ///
    /// PostgreSQL reports serialization failures (`40001`) and deadlocks (`40P01`), MySQL and
    /// MariaDB deadlocks (`1213`), lock wait timeouts (`1205`) and changed snapshots (`1020`),
    /// SQLite a busy database and a snapshot that is out of date.
    pub fn wants_new_transaction(&self) -> bool {
        const CODES: [&str; 10] =
            ["40001", "40P01", "1213", "1205", "1020", "5", "261", "517", "6", "262"];
        self.sql().is_some_and(|error| {
            error.kind() == SqlErrorKind::Refused && CODES.contains(&error.code())
        })
    }
}

/// The error for a key that several rows have.
pub(crate) fn not_unique(table: Identifier, column: Identifier) -> EntityError {
    let (table, column) = (table.as_str(), column.as_str());
    EntityError::new(
        EntityErrorKind::NotUnique,
        format!(
            "several rows of `{table}` have the same `{column}`\nhelp: roll back, and make \
             `{column}` the primary key or a unique column"
        ),
    )
}

impl From<SqlError> for EntityError {
    fn from(error: SqlError) -> Self {
        Self { kind: EntityErrorKind::Sql, text: error.to_string(), source: Some(error) }
    }
}

impl fmt::Display for EntityError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl StdError for EntityError {
    /// The causes of the database's error. Its own text is already that of this one.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().and_then(|error| error.source())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_that_was_given_up_is_run_again() {
        let refused = |code| EntityError::from(SqlError::refused(code, "refused"));
        for code in ["40001", "40P01", "1213", "1205", "517", "5"] {
            assert!(refused(code).wants_new_transaction(), "{code}");
        }
        assert!(!refused("23505").wants_new_transaction());
        assert!(!EntityError::from(SqlError::lost("gone")).wants_new_transaction());
        assert!(!EntityError::invalid("an id is empty").wants_new_transaction());
    }
}
