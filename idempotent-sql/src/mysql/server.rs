//! The server, as it introduces itself: version, limits, and the table if it is there.

use super::errors::store_error;
use super::pool::{Pool, Script};
use crate::columns::damaged;
use crate::dialect::mysql::{Statements, Table};
use idempotent_runtime::store::{StoreError, StoreErrorKind};

/// The oldest servers that are supported.
const OLDEST_MARIADB: (u64, u64) = (10, 6);
const OLDEST_MYSQL: (u64, u64) = (8, 0);

#[derive(Debug)]
pub(super) struct Server {
    /// As `VERSION()` gives it.
    pub(super) version: String,
    /// The bytes of the longest message that it reads.
    pub(super) longest_message: usize,
}

/// Asks a server for its version, and refuses one that records cannot be kept on.
pub(super) async fn meet(
    pool: &Pool,
    statements: &Statements,
    table: &Table,
) -> Result<Server, StoreError> {
    let about = "SELECT VERSION(), CAST(@@max_allowed_packet AS SIGNED), \
                 CAST(@@innodb_flush_log_at_trx_commit AS SIGNED)";
    let mut rows = ask(pool, table, about).await?;
    let Some(row) = rows.first_mut() else {
        let text = "MySQL: the server does not tell its version";
        return Err(StoreError::new(StoreErrorKind::Unavailable, text).without_effect());
    };
    let version = row.text().map_err(damaged)?.unwrap_or_default();
    let longest_message = row.integer().map_err(damaged)?.and_then(|it| usize::try_from(it).ok());
    let flushes = row.integer().map_err(damaged)?;
    if is_too_old(&version) {
        let text = format!(
            "the server is {version}, which is too old\nhelp: use MariaDB 10.6 or later, or MySQL \
             8.0 or later"
        );
        return Err(StoreError::new(StoreErrorKind::Misconfigured, text));
    }
    if flushes == Some(0) {
        tracing::warn!(
            target: "idempotent",
            "innodb_flush_log_at_trx_commit of the server is 0: records of the last second are lost \
             when it crashes, and their bodies may run again"
        );
    }
    check_table(pool, statements, table).await?;
    Ok(Server { version, longest_message: longest_message.unwrap_or(usize::MAX) })
}

/// Refuses a table that does not keep what is written, or that takes different keys for one. One
/// that is not there is none of those.
pub(super) async fn check_table(
    pool: &Pool,
    statements: &Statements,
    table: &Table,
) -> Result<(), StoreError> {
    let mut rows = ask(pool, table, &statements.made_as).await?;
    let Some(row) = rows.first_mut() else { return Ok(()) };
    let engine = row.text().map_err(damaged)?.unwrap_or_default();
    let key = row.text().map_err(damaged)?.unwrap_or_default();
    let quoted = &table.quoted;
    let text = if engine != "innodb" {
        format!(
            "the table {quoted} is of the engine {engine}, which has no transactions\nhelp: ALTER \
             TABLE {quoted} ENGINE = InnoDB"
        )
    } else if key != "varbinary" {
        format!(
            "the column `key` of the table {quoted} is of the type {key}, in which different keys \
             may be equal\nhelp: ALTER TABLE {quoted} MODIFY `key` VARBINARY(700) NOT NULL"
        )
    } else {
        return Ok(());
    };
    Err(StoreError::new(StoreErrorKind::Misconfigured, text))
}

async fn ask(
    pool: &Pool,
    table: &Table,
    text: &str,
) -> Result<Vec<crate::client::Row>, StoreError> {
    let answers = pool.checkout().await?.run(&Script::text(text)).await;
    let answers = answers.map_err(|error| store_error(error, &table.quoted).without_effect())?;
    Ok(answers.into_iter().next().unwrap_or_default())
}

fn is_too_old(version: &str) -> bool {
    // Some servers before MariaDB 11 put the version of a MySQL before their own.
    let own = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut numbers = own.split(|it: char| !it.is_ascii_digit()).map(str::parse);
    let mut number = || numbers.next().and_then(Result::ok).unwrap_or(0);
    let found = (number(), number());
    found < if version.contains("MariaDB") { OLDEST_MARIADB } else { OLDEST_MYSQL }
}

#[cfg(test)]
mod tests {
    use super::is_too_old;

    #[test]
    fn versions_are_told_apart() {
        for version in
            ["8.0.36", "8.4.0-percona", "9.1.0", "10.6.0-MariaDB", "10.11.19-MariaDB-log"]
        {
            assert!(!is_too_old(version), "{version}");
        }
        for version in ["5.7.44", "10.5.9-MariaDB", "5.5.5-10.5.9-MariaDB", "", "x"] {
            assert!(is_too_old(version), "{version}");
        }
        assert!(!is_too_old("5.5.5-10.11.6-MariaDB"));
    }
}
