//! Errors of databases and their clients.

use std::error::Error as StdError;
use std::fmt;

/// An error of a database, or of the connection to it.
#[derive(Debug)]
pub struct SqlError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: SqlErrorKind,
    code: String,
    text: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kind of an [`SqlError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SqlErrorKind {
    /// The database answered with an error. The statement had no effect.
    Refused,
    /// There is no connection. The statement was not sent.
    NotSent,
    /// No answer came. The statement may have taken effect, or may do so later.
    Lost,
    /// The answer was not the expected one. The statement may have taken effect.
    Unexpected,
}

impl SqlError {
    /// An error that the database sent, with its code: the SQLSTATE of PostgreSQL, the number of
    /// MySQL, the extended result code of SQLite.
    pub fn refused(
        code: impl Into<String>,
        error: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::from_parts(SqlErrorKind::Refused, code.into(), error.into())
    }

    /// A statement that was not sent.
    pub fn not_sent(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::from_parts(SqlErrorKind::NotSent, String::new(), error.into())
    }

    /// A statement that was not answered.
    pub fn lost(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::from_parts(SqlErrorKind::Lost, String::new(), error.into())
    }

    /// An answer that does not fit the statement.
    pub fn unexpected(text: impl Into<String>) -> Self {
        let (kind, code, text) = (SqlErrorKind::Unexpected, String::new(), text.into());
        Self(Box::new(Inner { kind, code, text, source: None }))
    }

    fn from_parts(
        kind: SqlErrorKind,
        code: String,
        source: Box<dyn StdError + Send + Sync>,
    ) -> Self {
        // Clients put the text of the database's error into a cause.
        let mut text = source.to_string();
        let mut cause = source.source();
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = error.source();
        }
        Self(Box::new(Inner { kind, code, text, source: Some(source) }))
    }

    /// The kind of the error.
    pub fn kind(&self) -> SqlErrorKind {
        self.0.kind
    }

    /// The code that the database gave; empty if none did.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// `true` if the database answered, with this code.
    pub fn is(&self, code: &str) -> bool {
        self.0.kind == SqlErrorKind::Refused && self.0.code == code
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.text)
    }
}

impl StdError for SqlError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().and_then(|source| source.source())
    }
}
