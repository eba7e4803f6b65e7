//! The meaning of the errors of MySQL and MariaDB for a verb.

use crate::client::{SqlError, SqlErrorKind};
use idempotent_runtime::store::{StoreError, StoreErrorKind};

/// `true` if the statement lost a race and had no effect: it can be sent again at once.
pub(crate) fn is_lost_race(error: &SqlError) -> bool {
    // Deadlock; the whole transaction is rolled back. Also a conflict with another node of Galera.
    error.is("1213")
}

/// `true` if another transaction had the row, for as long as the statement was to wait. Only the
/// statement is rolled back.
pub(crate) fn is_locked(error: &SqlError) -> bool {
    // Lock wait timeout, and NOWAIT of MariaDB; NOWAIT of MySQL.
    error.is("1205") || error.is("3572")
}

/// `true` if a record with the key is there already.
pub(crate) fn is_duplicate(error: &SqlError) -> bool {
    error.is("1062")
}

/// `true` if the server had ended the connection before it read the statement, or refuses all of
/// them: shutting down, connection killed, idle for too long.
pub(super) fn is_connection_over(error: &SqlError) -> bool {
    ["1053", "1927", "4031"].iter().any(|code| error.is(code))
}

/// `true` if an error of the very statement that commits rules out that it did. Of others it is not
/// known: a commit that was interrupted may be on disk.
pub(crate) fn is_before_commit(error: &SqlError) -> bool {
    const BEFORE: [&str; 22] = [
        "1021", "1030", "1044", "1045", "1046", "1049", "1054", "1062", "1064", "1114", "1118",
        "1136", "1142", "1143", "1146", "1205", "1213", "1290", "1364", "1406", "1792", "1836",
    ];
    let also = ["1665", "3572"];
    BEFORE.iter().chain(&also).any(|code| error.is(code))
}

/// The error of a verb on this table.
pub(crate) fn store_error(error: SqlError, table: &str) -> StoreError {
    let misconfigured = |text: String| StoreError::new(StoreErrorKind::Misconfigured, text);
    let unavailable =
        |error: &SqlError| StoreError::new(StoreErrorKind::Unavailable, format!("MySQL: {error}"));
    let answer = match (error.kind(), error.code()) {
        (SqlErrorKind::NotSent, _) if error.to_string().contains("RSA auth backend disabled") => {
            misconfigured(
                "MySQL: the user logs in with `caching_sha2_password`, which needs an encrypted \
                 connection\nhelp: turn on a TLS feature of sqlx, such as `tls-rustls`, or ALTER USER \
                 .. IDENTIFIED WITH mysql_native_password"
                    .to_owned(),
            )
        }
        (SqlErrorKind::NotSent, _) => unavailable(&error).without_effect(),
        (SqlErrorKind::Lost | SqlErrorKind::Unexpected, _) => unavailable(&error),
        (_, "1146") => misconfigured(format!(
            "the table {table} does not exist\nhelp: call `migrate()` once, or run the statements \
             that `schema()` returns"
        )),
        // Unknown column, wrong number of columns, a column without a default, data too long.
        (_, "1054" | "1136" | "1364" | "1406") => misconfigured(format!(
            "the table {table} is not one of this version: {error}\nhelp: compare it with the \
             statements that `schema()` returns"
        )),
        (_, "1142" | "1143") => misconfigured(format!(
            "MySQL: {error}\nhelp: GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO the user; only \
             `migrate()` needs more"
        )),
        (_, "1045" | "1698") => misconfigured(format!(
            "MySQL: {error}\nhelp: check the user and the password in the URL"
        )),
        (_, "1044") => misconfigured(format!(
            "MySQL: {error}\nhelp: check the name of the database in the URL, or GRANT the user \
             access to it"
        )),
        (_, "1049") => misconfigured(format!(
            "MySQL: {error}\nhelp: check the name of the database in the URL, or create it"
        )),
        (_, "1665") => misconfigured(format!(
            "MySQL: {error}\nhelp: set `binlog_format` of the server to ROW or MIXED"
        )),
        (_, "1040" | "1203" | "1226") => {
            let text = format!(
                "MySQL: {error}\nhelp: lower `max_connections` of the store, or raise that of the \
                 server"
            );
            StoreError::new(StoreErrorKind::Unavailable, text).without_effect()
        }
        // Disk full, table full, row too large for the log.
        (_, "1021" | "1114" | "1118") => {
            StoreError::new(StoreErrorKind::Full, format!("MySQL: {error}"))
        }
        (_, "1205" | "1213" | "3572") => {
            StoreError::new(StoreErrorKind::Contended, format!("MySQL: {error}"))
        }
        (_, "1290" | "1792" | "1836") => {
            let text = format!(
                "MySQL: the server is read-only, as a replica is: {error}\nhelp: connect to the \
                 primary"
            );
            StoreError::new(StoreErrorKind::Unavailable, text).without_effect()
        }
        _ => unavailable(&error).without_effect(),
    };
    answer.with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_says_whether_there_was_an_effect() {
        let of = |code: &str| store_error(SqlError::refused(code, "text"), "`records`");
        for (code, kind) in [
            ("1146", StoreErrorKind::Misconfigured),
            ("1142", StoreErrorKind::Misconfigured),
            ("1045", StoreErrorKind::Misconfigured),
            ("1049", StoreErrorKind::Misconfigured),
            ("1114", StoreErrorKind::Full),
            ("1205", StoreErrorKind::Contended),
            ("1213", StoreErrorKind::Contended),
            ("1290", StoreErrorKind::Unavailable),
            ("1040", StoreErrorKind::Unavailable),
        ] {
            let error = of(code);
            assert_eq!((error.kind(), error.may_have_taken_effect()), (kind, false), "{code}");
        }
        let lost = store_error(SqlError::lost("gone"), "`records`");
        assert!(lost.may_have_taken_effect());
    }
}
