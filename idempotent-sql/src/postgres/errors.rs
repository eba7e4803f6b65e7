//! The meaning of PostgreSQL's errors for a verb.

use crate::client::{SqlError, SqlErrorKind};
use idempotent_runtime::store::{StoreError, StoreErrorKind};

/// `true` if the statement lost a race and had no effect: it can be sent again at once.
pub(crate) fn is_lost_race(error: &SqlError) -> bool {
    // Serialization failure, deadlock.
    error.is("40001") || error.is("40P01")
}

/// `true` if the connection ended before the answer came, or by the answer.
pub(super) fn is_lost_connection(error: &SqlError) -> bool {
    error.kind() == SqlErrorKind::Lost || error.code().starts_with("57P")
}

/// `true` if a statement that was prepared is not there: a pooler gave its connection to another
/// client.
pub(super) fn is_prepared_elsewhere(error: &SqlError) -> bool {
    // Unknown prepared statement, duplicate prepared statement.
    error.is("26000") || error.is("42P05")
}

/// `true` if a pooler refused the settings that a connection was opened with.
pub(super) fn is_refused_setting(error: &SqlError) -> bool {
    error.is("08P01") && error.to_string().contains("startup parameter")
}

/// The error of a verb on this table.
pub(crate) fn store_error(error: SqlError, table: &str) -> StoreError {
    let misconfigured = |text: String| StoreError::new(StoreErrorKind::Misconfigured, text);
    let unavailable = |error: &SqlError| {
        StoreError::new(StoreErrorKind::Unavailable, format!("PostgreSQL: {error}"))
    };
    let answer = match (error.kind(), error.code()) {
        (SqlErrorKind::NotSent, _) => unavailable(&error).without_effect(),
        (SqlErrorKind::Lost | SqlErrorKind::Unexpected, _) => unavailable(&error),
        // The server ended the connection: it may have been after the commit.
        (_, code)
            if code.starts_with("57P") || code.starts_with("08") || code.starts_with("XX") =>
        {
            unavailable(&error)
        }
        (_, "42P01") => misconfigured(format!(
            "the table {table} does not exist\nhelp: call `migrate()` once, or run the statements \
             that `schema()` returns"
        )),
        (_, "42703" | "42804") => misconfigured(format!(
            "the table {table} is not one of this version: {error}\nhelp: compare it with the \
             statements that `schema()` returns"
        )),
        (_, "42501") => misconfigured(format!(
            "PostgreSQL: {error}\nhelp: GRANT SELECT, INSERT, UPDATE, DELETE ON {table}; only \
             `migrate()` needs more"
        )),
        (_, "28P01" | "28000") => misconfigured(format!(
            "PostgreSQL: {error}\nhelp: check the user and the password in the URL"
        )),
        (_, "3D000") => misconfigured(format!(
            "PostgreSQL: {error}\nhelp: check the name of the database in the URL, or create it"
        )),
        (_, "3F000") => {
            misconfigured(format!("PostgreSQL: {error}\nhelp: create the schema first"))
        }
        // Out of disk, out of memory, over a configured limit.
        (_, "53100" | "53200" | "53400") => {
            StoreError::new(StoreErrorKind::Full, format!("PostgreSQL: {error}"))
        }
        // Lock timeout, serialization failure, deadlock.
        (_, "55P03" | "40001" | "40P01") => {
            StoreError::new(StoreErrorKind::Contended, format!("PostgreSQL: {error}"))
        }
        (_, "25006") => {
            let text = "PostgreSQL: the server is read-only, as a replica is\nhelp: connect to the \
                        primary, with `target_session_attrs=read-write` in the URL";
            StoreError::new(StoreErrorKind::Unavailable, text).without_effect()
        }
        _ => unavailable(&error).without_effect(),
    };
    answer.with_source(error)
}
