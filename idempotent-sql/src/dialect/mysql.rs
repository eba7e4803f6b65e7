//! The statements of MySQL and MariaDB.
//!
//! All of them take the time from `UTC_TIMESTAMP(6)`, which no time zone of a session changes. It is
//! the time at which a statement began: one that may have waited for a row is preceded by a
//! [look](Statements::look) that waits in its place.
//!
//! Neither database returns the rows that an `UPDATE` wrote. Each writing statement is therefore
//! followed by [`written`](Statements::written), on the same connection and, unless it is the
//! insert, in the same transaction. The count is that of the statement alone: every write changes
//! the revision, so it is the same whether a client counts rows that were found or that were changed.

use crate::columns::HEAD;
use crate::table;
use idempotent_runtime::store::StoreError;
use std::fmt::Write as _;

/// The version of the table that this crate reads and writes.
pub(crate) const VERSION: i64 = 1;

/// Fails with [`NONE_WRITTEN`] if the statement before it has written nothing. A statement behind it in
/// the same message, sent before its answer is known, is then not executed.
pub(crate) const SOME_WRITTEN: &str = "SELECT 9223372036854775807 + (ROW_COUNT() < 1)";
/// The code of that error: a number that is out of range.
pub(crate) const NONE_WRITTEN: &str = "1690";

/// The name of a table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// As it is written in statements.
    pub(crate) quoted: String,
    /// As `information_schema` has it: a condition on `TABLE_SCHEMA` and `TABLE_NAME`.
    listed: String,
    index: String,
}

impl Table {
    /// A table by its name, or by its database and its name.
    pub(crate) fn new(name: &str) -> Result<Self, StoreError> {
        let parts = table::parts(name)?;
        let quoted: Vec<_> = parts.iter().map(|part| format!("`{part}`")).collect();
        let (database, name) = match *parts {
            [database, name] => (format!("'{database}'"), name),
            _ => ("DATABASE()".to_owned(), name),
        };
        Ok(Self {
            quoted: quoted.join("."),
            listed: format!("TABLE_SCHEMA = {database} AND TABLE_NAME = '{name}'"),
            index: format!("`{name}_expires_at`"),
        })
    }

    /// `true` if the name says which database the table is in.
    pub(crate) fn has_database(&self) -> bool {
        self.quoted.contains('.')
    }
}

/// The statements on one table. Parameters are numbered from one, in the order of their `?`.
#[derive(Debug)]
pub(crate) struct Statements {
    /// The record of 1.
    pub(crate) load: String,
    /// The record of 1, locked until the transaction ends.
    pub(crate) look: String,
    /// The same, or an error at once if another transaction has it locked: 1205 of MariaDB, 3572 of
    /// MySQL.
    pub(crate) look_now: String,
    /// Writes the record of 1 if none is alive that was committed; 2 to 14 are the other columns in
    /// order, 15 is the key again. Error 1062 if a record is there that has expired, or that was
    /// committed since.
    ///
    /// Under `READ COMMITTED` it locks nothing if a record is alive. Under `REPEATABLE READ` its look
    /// locks the gap around a key that is missing, and with it keys of others.
    pub(crate) insert: String,
    /// Writes the record of 1 without a look, for transactions of any isolation; 2 to 14 are the
    /// other columns in order. Error 1062 if a record is there, whether or not it has expired.
    pub(crate) insert_first: String,
    /// Replaces a record that has expired: 1 to 9 are the head and the response, 10 the life, 11 the
    /// key.
    pub(crate) take_over: String,
    /// Replaces a record that is as seen: 1 to 9 are the head and the response, 10 the life, 11 the
    /// key, 12 to 19 the head that is seen, 20 the longest life, or null.
    pub(crate) update: String,
    /// The same, and replaces a record that has expired too, for a transaction that has it locked.
    pub(crate) replace_locked: String,
    /// Extends its life: 1 is the life, 2 the key, 3 to 10 the head that is seen, 11 the longest
    /// life, or null.
    pub(crate) extend: String,
    /// Removes it: 1 is the key, 2 to 9 the head that is seen, 10 the longest life, or null.
    pub(crate) delete: String,
    /// The number of records that the statement before it has written. It has to be sent in the same
    /// message, or without preparing it in between.
    pub(crate) written: String,
    /// Removes at most 1 records that have expired.
    pub(crate) expire: String,
    /// At most 2 records after the key 1, with those that have expired.
    pub(crate) scan: String,
    /// The number of records, about, and their bytes.
    pub(crate) usage: String,
    /// The engine of the table and the type of its key; no row if there is no table.
    pub(crate) made_as: String,
}

impl Statements {
    pub(crate) fn new(table: &Table) -> Self {
        let Table { quoted: table, listed, .. } = table;
        let head = HEAD.join(", ");
        let life = "TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at)";
        let alive = "expires_at > UTC_TIMESTAMP(6)";
        let found =
            format!("SELECT {head}, response, {life} FROM {table} WHERE `key` = ? AND {alive}");
        let is_seen = format!(
            "`key` = ?{} AND {alive} AND \
             COALESCE(expires_at <= UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, TRUE)",
            seen()
        );
        let sets = sets();
        let next_life = "UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND";
        let insert_first = format!(
            "INSERT INTO {table} (`key`, long_key, operation, business_key, {head}, response, \
             expires_at, created_at, updated_at) \
             SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {next_life}, UTC_TIMESTAMP(6), \
             UTC_TIMESTAMP(6) FROM DUAL"
        );
        Self {
            load: found.clone(),
            look: format!("{found} FOR UPDATE"),
            look_now: format!("{found} FOR UPDATE NOWAIT"),
            insert: format!(
                "{insert_first} WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE `key` = ? AND {alive})"
            ),
            insert_first,
            take_over: format!(
                "UPDATE {table} SET {sets}, response = ?, expires_at = {next_life}, \
                 created_at = UTC_TIMESTAMP(6), updated_at = UTC_TIMESTAMP(6), \
                 revision = revision + 1 WHERE `key` = ? AND expires_at <= UTC_TIMESTAMP(6)"
            ),
            update: format!(
                "UPDATE {table} SET {sets}, response = ?, expires_at = {next_life}, \
                 updated_at = UTC_TIMESTAMP(6), revision = revision + 1 WHERE {is_seen}"
            ),
            // Assignments are made in order: the first still sees when the record expired.
            replace_locked: format!(
                "UPDATE {table} SET created_at = IF({alive}, created_at, UTC_TIMESTAMP(6)), \
                 {sets}, response = ?, expires_at = {next_life}, updated_at = UTC_TIMESTAMP(6), \
                 revision = revision + 1 WHERE `key` = ? AND (NOT ({alive}) OR (TRUE{} AND \
                 COALESCE(expires_at <= UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, TRUE)))",
                seen()
            ),
            extend: format!(
                "UPDATE {table} SET expires_at = GREATEST(expires_at, {next_life}), \
                 revision = revision + 1 WHERE {is_seen}"
            ),
            delete: format!("DELETE FROM {table} WHERE {is_seen}"),
            written: "SELECT ROW_COUNT()".to_owned(),
            // The order of the join is given: the other one would read the whole table.
            expire: format!(
                "DELETE record FROM (SELECT `key` FROM {table} WHERE expires_at <= UTC_TIMESTAMP(6) \
                 ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED) AS gone \
                 STRAIGHT_JOIN {table} AS record ON record.`key` = gone.`key`"
            ),
            scan: format!(
                "SELECT `key`, long_key, {head}, OCTET_LENGTH(response), {life} \
                 FROM {table} WHERE `key` > ? ORDER BY `key` LIMIT ?"
            ),
            usage: format!(
                "SELECT CAST(TABLE_ROWS AS SIGNED), CAST(DATA_LENGTH + INDEX_LENGTH AS SIGNED) \
                 FROM information_schema.TABLES WHERE {listed}"
            ),
            made_as: format!(
                "SELECT (SELECT LOWER(ENGINE) FROM information_schema.TABLES WHERE {listed}), \
                 LOWER(DATA_TYPE) FROM information_schema.COLUMNS \
                 WHERE {listed} AND COLUMN_NAME = 'key'"
            ),
        }
    }
}

/// Assignments of a head.
fn sets() -> String {
    HEAD.map(|column| format!("{column} = ?")).join(", ")
}

/// Comparisons with a head.
fn seen() -> String {
    let mut text = String::new();
    for column in HEAD {
        let equals = if column == "fingerprint" { "<=>" } else { "=" };
        let _ = write!(text, " AND {column} {equals} ?");
    }
    text
}

/// The statement that makes the table. It changes nothing where it is there already.
pub(crate) fn schema(table: &Table) -> Vec<String> {
    let Table { quoted, index, .. } = table;
    vec![format!(
        "CREATE TABLE IF NOT EXISTS {quoted} (
    `key` VARBINARY(700) NOT NULL PRIMARY KEY,
    long_key MEDIUMBLOB,
    operation VARCHAR(200) NOT NULL,
    business_key VARCHAR(200) NOT NULL,
    state VARCHAR(16) NOT NULL,
    policy VARCHAR(16) NOT NULL,
    attempt BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    lease_ms BIGINT NOT NULL,
    linger_ms BIGINT NOT NULL,
    token BINARY(16) NOT NULL,
    fingerprint BINARY(16),
    response LONGBLOB,
    revision BIGINT NOT NULL DEFAULT 1,
    created_at DATETIME(6) NOT NULL,
    updated_at DATETIME(6) NOT NULL,
    expires_at DATETIME(6) NOT NULL,
    INDEX {index} (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'idempotency records, version {VERSION}'"
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_are_checked() {
        assert_eq!(Table::new("records").unwrap().quoted, "`records`");
        let table = Table::new("shop.records").unwrap();
        assert_eq!((&*table.quoted, &*table.index), ("`shop`.`records`", "`records_expires_at`"));
        assert!(table.has_database());
        for name in ["", "Records", "a.b.c", "a;", "1a", "a`b", ".a", "a."] {
            assert!(Table::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn statements_have_as_many_parameters_as_they_say() {
        let statements = Statements::new(&Table::new("records").unwrap());
        let count = |text: &str| text.matches('?').count();
        let Statements { look, insert, insert_first, take_over, .. } = &statements;
        assert_eq!([look, insert, insert_first, take_over].map(|it| count(it)), [1, 15, 14, 11]);
        let Statements { load, update, extend, delete, .. } = &statements;
        assert_eq!([load, update, extend, delete].map(|it| count(it)), [1, 20, 11, 10]);
    }
}
