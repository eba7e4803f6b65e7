//! The statements of SQLite.
//!
//! A verb is one or two statements: one that writes on a condition and returns a row if it wrote,
//! and `load`, which shows the record if it did not. Both run in one transaction that was begun with
//! `BEGIN IMMEDIATE`: it holds the write lock of the file, so nothing happens in between.
//!
//! SQLite has no clock that fits. Every statement ends with three parameters for the present: the
//! wall clock and the boot clock in microseconds, and the id of the boot, all of them read while the
//! transaction is open. `sqlite::clock` has the rule by which they make the life of a record.

use crate::columns::{HEAD, LONGEST_LIFE};
use std::fmt::Write as _;

/// The version of the table that this crate reads and writes.
pub(crate) const VERSION: i64 = 1;

/// The mark of the version in the text of the table, which SQLite keeps as it was written.
const VERSION_MARK: &str = "-- idempotency records, version ";

/// The statements on one table.
#[derive(Debug)]
pub(crate) struct Statements {
    /// The record of `?1`. `?2` to `?4` are the present.
    pub(crate) load: String,
    /// The same, also if it has expired: its life is then not positive. The life is computed once.
    pub(crate) look: String,
    /// Writes the record of `?1` if there is none, and returns a row if it did. `?2` to `?13` are
    /// the other columns in order, `?14` is the life, `?15` to `?17` are the present.
    pub(crate) insert: String,
    /// Replaces the record of `?1` if its head is `?2` to `?9`, and it lives for at most `?10`;
    /// `?11` to `?18` are the head, `?19` is the response, `?20` the life, and `?21` to `?23` are the
    /// present. Returns a row if it did, as the next two do.
    pub(crate) update: String,
    /// The same, and replaces a record that has expired too, for a transaction that holds the key.
    pub(crate) replace_locked: String,
    /// Extends its life to at least `?11`. `?12` to `?14` are the present.
    pub(crate) extend: String,
    /// Removes it. `?11` to `?13` are the present.
    pub(crate) delete: String,
    /// Removes at most `?1` records that have expired. `?2` to `?4` are the present.
    pub(crate) expire: String,
    /// At most `?2` records after the key `?1`, those that have expired included: their life is not
    /// positive. `?3` to `?5` are the present.
    pub(crate) scan: String,
    /// The number of records, and the bytes of the pages in use.
    pub(crate) usage: String,
}

impl Statements {
    pub(crate) fn new(table: &str) -> Self {
        let head = HEAD.join(", ");
        let record = |now| format!("{head}, response, {} AS life", life(now));
        let is_seen = |now| {
            let seen = seen(2);
            let life = life(now);
            format!("key = ?1{seen} AND {life} > 0 AND (?10 IS NULL OR {life} <= ?10)")
        };
        Self {
            load: format!("SELECT {} FROM {table} WHERE key = ?1 AND {} > 0", record(2), life(2)),
            look: format!("SELECT {} FROM {table} WHERE key = ?1", record(2)),
            insert: insert(table),
            update: format!(
                "UPDATE {table} SET {sets}, response = ?19, {times}, updated_at = ?21 \
                 WHERE {is_seen} RETURNING 1",
                sets = sets(11),
                times = times(11, 20, 21),
                is_seen = is_seen(21),
            ),
            replace_locked: format!(
                "UPDATE {table} SET {sets}, response = ?19, {times}, updated_at = ?21, \
                 created_at = CASE WHEN {life} > 0 THEN created_at ELSE ?21 END \
                 WHERE key = ?1 AND ({life} <= 0 OR ({is_seen})) RETURNING 1",
                sets = sets(11),
                times = times(11, 20, 21),
                life = life(21),
                is_seen = is_seen(21),
            ),
            extend: extend(table, &is_seen(12)),
            delete: format!("DELETE FROM {table} WHERE {} RETURNING 1", is_seen(11)),
            // The first condition finds them by the index; the second spares living leases.
            expire: format!(
                "DELETE FROM {table} WHERE key IN (SELECT key FROM {table} WHERE expires_at <= ?2 \
                 AND {} <= 0 ORDER BY expires_at LIMIT ?1)",
                life(2)
            ),
            scan: format!(
                "SELECT key, long_key, {head}, length(response), {} FROM {table} \
                 WHERE key > ?1 ORDER BY key LIMIT ?2",
                life(3)
            ),
            usage: format!(
                "SELECT (SELECT count(*) FROM {table}), (pages.page_count - free.freelist_count) * \
                 size.page_size FROM pragma_page_count AS pages, pragma_freelist_count AS free, \
                 pragma_page_size AS size"
            ),
        }
    }
}

/// The life of a row in microseconds; not positive if it is over. The present are the parameters
/// `now`, `now + 1` and `now + 2`.
fn life(now: usize) -> String {
    let (wall, boot, boot_id) = (now, now + 1, now + 2);
    let linger = linger("linger_ms");
    format!(
        "(CASE WHEN state <> 'processing' THEN expires_at - ?{wall} \
         WHEN boot_id = ?{boot_id} AND lease_until > ?{boot} THEN lease_until - ?{boot} + {linger} \
         ELSE min(expires_at - ?{wall}, {linger}) END)"
    )
}

/// Microseconds of a linger. The bound is that of a life, which keeps sums within an integer.
fn linger(millis: &str) -> String {
    format!("min({millis}, {}) * 1000", LONGEST_LIFE.as_millis())
}

fn insert(table: &str) -> String {
    format!(
        "INSERT INTO {table} AS record (key, long_key, operation, business_key, {head}, response, \
         expires_at, lease_until, boot_id, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?15 + ?14, {lease_until}, \
         {boot_id}, ?15, ?15) \
         ON CONFLICT (key) DO UPDATE SET {sets}, response = excluded.response, \
         expires_at = excluded.expires_at, lease_until = excluded.lease_until, \
         boot_id = excluded.boot_id, created_at = ?15, updated_at = ?15 \
         WHERE {life} <= 0 RETURNING 1",
        head = HEAD.join(", "),
        lease_until = lease_until(5, 14, 15),
        boot_id = boot_id(5, 15),
        sets = sets(5),
        life = life(15),
    )
}

/// Both ends of a life move on only: that of a lease, unless it is of another boot, and that of the
/// record.
fn extend(table: &str, is_seen: &str) -> String {
    let linger = linger("linger_ms");
    format!(
        "UPDATE {table} SET expires_at = max(expires_at, ?12 + ?11), \
         lease_until = CASE WHEN state = 'processing' THEN max(?13 + max(?11 - {linger}, 0), \
         CASE WHEN boot_id = ?14 THEN lease_until ELSE 0 END) END, \
         boot_id = CASE WHEN state = 'processing' THEN ?14 END \
         WHERE {is_seen} RETURNING 1"
    )
}

/// Assignments of the times of a record whose head begins with the parameter `head`.
fn times(head: usize, life: usize, now: usize) -> String {
    format!(
        "expires_at = ?{now} + ?{life}, lease_until = {}, boot_id = {}",
        lease_until(head, life, now),
        boot_id(head, now),
    )
}

/// The end of a lease on the boot clock: what a life is longer than the linger.
fn lease_until(head: usize, life: usize, now: usize) -> String {
    let linger = linger(&format!("?{}", head + 5));
    let boot = now + 1;
    format!("CASE WHEN ?{head} = 'processing' THEN ?{boot} + max(?{life} - {linger}, 0) END")
}

/// The boot in which a lease was granted.
fn boot_id(head: usize, now: usize) -> String {
    format!("CASE WHEN ?{head} = 'processing' THEN ?{} END", now + 2)
}

/// Assignments of a head, from the parameter `first` on.
fn sets(first: usize) -> String {
    let mut text = String::new();
    for (at, column) in HEAD.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{column} = ?{}", first + at);
    }
    text
}

/// Comparisons with a head, from the parameter `first` on.
fn seen(first: usize) -> String {
    let mut text = String::new();
    for (at, column) in HEAD.iter().enumerate() {
        let _ = write!(text, " AND {column} IS ?{}", first + at);
    }
    text
}

/// The statements that make the table, in order. They change nothing where it is there already.
pub(crate) fn schema(table: &str, index: &str) -> Vec<String> {
    let create = format!(
        "CREATE TABLE IF NOT EXISTS {table} ( {VERSION_MARK}{VERSION}
    key BLOB NOT NULL PRIMARY KEY,
    long_key BLOB,
    operation TEXT NOT NULL,
    business_key TEXT NOT NULL,
    state TEXT NOT NULL,
    policy TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    lease_ms INTEGER NOT NULL,
    linger_ms INTEGER NOT NULL,
    token BLOB NOT NULL,
    fingerprint BLOB,
    response BLOB,
    expires_at INTEGER NOT NULL, -- microseconds: datetime(expires_at / 1000000, 'unixepoch')
    lease_until INTEGER, -- microseconds since the boot of boot_id
    boot_id TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT"
    );
    let index = format!("CREATE INDEX IF NOT EXISTS {index} ON {table} (expires_at)");
    vec![create, index]
}

/// The version of a table, from the text that made it.
pub(crate) fn version_of(create: &str) -> Option<i64> {
    let (_, rest) = create.split_once(VERSION_MARK)?;
    rest.lines().next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_text_of_the_table() {
        let [create, _] = &schema("\"records\"", "\"records_expires_at\"")[..] else {
            panic!("a table and an index")
        };
        assert_eq!(version_of(create), Some(VERSION));
        assert_eq!(version_of("CREATE TABLE records (key BLOB)"), None);
        assert_eq!(version_of("CREATE TABLE r ( -- idempotency records, version 7\nkey)"), Some(7));
    }
}
