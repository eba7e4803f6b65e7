//! The statements of PostgreSQL.
//!
//! Each verb is one statement. All of them take the time from `clock_timestamp()`: `now()` is the
//! start of a transaction, which may have waited for a lock since.
//!
//! A statement sees what was committed when it began, except that writes wait for, and then look at,
//! the newest version of a row. So a row that another transaction writes at the same moment may be
//! missed by the reading half of a statement: the caller asks again where that would matter.

use crate::columns::HEAD;
use std::fmt::Write as _;

/// The version of the table that this crate reads and writes.
pub(crate) const VERSION: i64 = 1;

/// The statements on one table.
#[derive(Debug)]
pub(crate) struct Statements {
    /// The record of `$1`.
    pub(crate) load: String,
    /// The same, whether it has expired or not.
    pub(crate) load_any: String,
    /// Fails if there is a row of `$1`: a cast of a text that tells the reader of the server's log why.
    pub(crate) none_or_fail: String,
    /// Writes the record of `$1` if there is no row of it and nobody has its lock, and shows it
    /// otherwise. It returns no row if one that has expired is in the way, if the lock is taken, or if
    /// the record is too new to be seen. `$2` to `$14` are the other columns in order, `$15` the number
    /// of the lock.
    pub(crate) insert: String,
    /// The same, but it shows no record: it returns no row if there is one, expired or not. It saves the
    /// server a tenth of a first execution.
    pub(crate) insert_new: String,
    /// The same as `insert`, also over a record that has expired. It takes the server an eighth longer.
    pub(crate) insert_over: String,
    /// Writes the record of `$1` if there is no row of it, for a transaction that holds the lock
    /// itself, and returns a row if it did; without `$15`.
    pub(crate) insert_locked: String,
    /// The same, with the error [`NOTHING_WRITTEN`] if it did not.
    pub(crate) insert_or_fail: String,
    /// The same as `insert_locked`, also over a record that has expired.
    pub(crate) insert_over_locked: String,
    /// The same, with the error [`NOTHING_WRITTEN`] if it did not.
    pub(crate) insert_over_or_fail: String,
    /// Replaces the record of `$1` if its head is `$2` to `$9`, and it lives for at most `$10`;
    /// `$11` to `$18` are the head, `$19` is the response and `$20` the life.
    pub(crate) update: String,
    /// The same for an attempt that ends, and stays itself: the state becomes `$2` if it is `$3`, the
    /// policy `$4` and the token `$5`; `$6` is the response and `$7` the life.
    pub(crate) settle: String,
    /// Replaces the record of `$1` if its head is `$15` to `$22`, and it lives for at most `$23`, or
    /// writes it if there is none, for a transaction that holds the lock itself; `$2` to `$14` as those
    /// of an insert. Returns a row if it did.
    pub(crate) replace_locked: String,
    /// The same, with the error [`NOTHING_WRITTEN`] if it did not.
    pub(crate) replace_or_fail: String,
    /// The same as `update` for another attempt, if no transaction has the key; `$21` is the number of the lock.
    pub(crate) take_over: String,
    /// Extends its life to at least `$11`.
    pub(crate) extend: String,
    /// Removes it.
    pub(crate) delete: String,
    /// Marks the record of `$1` as awaited while an attempt holds it.
    pub(crate) watch: String,
    /// Removes at most `$1` records that have expired.
    pub(crate) expire: String,
    /// At most `$2` records after the key `$1`.
    pub(crate) scan: String,
    /// The number of records, about, and their bytes.
    pub(crate) usage: String,
}

impl Statements {
    pub(crate) fn new(table: &str) -> Self {
        let head = HEAD.join(", ");
        // A floating point number is exact to the microsecond for 285 years. `extract` computes with
        // decimals, and costs as much as a fourth of the statement.
        let life = "(date_part('epoch', expires_at - clock_timestamp()) * 1000000)::bigint";
        let alive = "expires_at > clock_timestamp()";
        let record = format!("{head}, response, {life} AS life");
        let load_any = format!("SELECT {record} FROM {table} WHERE key = $1");
        let found = format!("{load_any} AND {alive}");
        let nothing = "NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, \
                       NULL::bigint, NULL::bytea, NULL::bytea, NULL::bytea, NULL::bigint";
        let unless_written = format!(
            "SELECT 0::bigint, found.* FROM ({found}) AS found \
                                      WHERE NOT EXISTS (SELECT FROM written)"
        );
        let is_seen = format!(
            "{alive}{} AND ($10::bigint IS NULL OR expires_at <= \
                               clock_timestamp() + $10 * interval '1 microsecond')",
            seen("", 2)
        );
        let insert_into = format!("{} VALUES ({VALUES})", into(table));
        let insert_locked = format!("{insert_into} ON CONFLICT DO NOTHING RETURNING 1::bigint");
        let insert_over_locked = format!("{insert_into} {} RETURNING 1::bigint", unless_alive());
        let replace_locked = replace_locked(table);
        Self {
            load: found.clone(),
            load_any,
            none_or_fail: format!(
                "SELECT ('idempotent: the key is not new, and is ' || state)::int FROM {table} \
                 WHERE key = $1"
            ),
            insert: insert(table, &found, nothing, "ON CONFLICT DO NOTHING"),
            insert_new: format!(
                "{} SELECT {VALUES} WHERE NOT EXISTS (SELECT FROM {table} WHERE key = $1) \
                 AND pg_try_advisory_xact_lock($15) ON CONFLICT DO NOTHING RETURNING 1::bigint",
                into(table)
            ),
            insert_over: insert(table, &found, nothing, &unless_alive()),
            insert_or_fail: or_fail(&insert_locked),
            insert_locked,
            insert_over_or_fail: or_fail(&insert_over_locked),
            insert_over_locked,
            update: format!("{} RETURNING 1 + watched::int::bigint", update(table, &is_seen)),
            // Nothing else of an attempt changes while it holds the key, so the rest of its head is neither
            // compared nor written.
            settle: format!(
                "UPDATE {table} SET state = $2, response = $6, updated_at = clock_timestamp(), \
                 expires_at = clock_timestamp() + $7::bigint * interval '1 microsecond' \
                 WHERE key = $1 AND {alive} AND state = $3 AND policy = $4 AND token = $5 \
                 RETURNING 1 + watched::int::bigint"
            ),
            replace_or_fail: or_fail(&replace_locked),
            replace_locked,
            take_over: format!(
                "WITH claim AS MATERIALIZED (SELECT pg_try_advisory_xact_lock($21) AS taken), \
                 written AS ({} AND (SELECT taken FROM claim) RETURNING 1) \
                 SELECT 1::bigint, {nothing} FROM written \
                 UNION ALL {unless_written} AND (SELECT taken FROM claim) \
                 UNION ALL SELECT 3, {nothing} FROM claim WHERE NOT taken",
                update(table, &is_seen)
            ),
            // A row that a transaction has locked is left out: it must not hold up others.
            extend: format!(
                "WITH free AS MATERIALIZED (SELECT key FROM {table} WHERE key = $1 AND {is_seen} \
                 FOR UPDATE SKIP LOCKED), \
                 written AS (UPDATE {table} AS record SET expires_at = greatest(record.expires_at, \
                 clock_timestamp() + $11::bigint * interval '1 microsecond') \
                 FROM free WHERE record.key = free.key RETURNING 1) \
                 SELECT 1::bigint, {nothing} FROM written UNION ALL {unless_written}"
            ),
            delete: format!(
                "WITH written AS (DELETE FROM {table} WHERE key = $1 AND {is_seen} \
                 RETURNING watched) \
                 SELECT 1 + watched::int::bigint, {nothing} FROM written UNION ALL {unless_written}"
            ),
            watch: format!(
                "UPDATE {table} SET watched = true WHERE key IN (SELECT key FROM {table} \
                 WHERE key = $1 AND state = 'processing' AND NOT watched AND {alive} \
                 FOR UPDATE SKIP LOCKED)"
            ),
            expire: format!(
                "WITH gone AS (DELETE FROM {table} WHERE key IN (SELECT key FROM {table} \
                 WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT $1 \
                 FOR UPDATE SKIP LOCKED) RETURNING 1) SELECT count(*) FROM gone"
            ),
            scan: format!(
                "SELECT key, long_key, {head}, octet_length(response)::bigint, {life} \
                 FROM {table} WHERE key > $1 AND {alive} ORDER BY key LIMIT $2"
            ),
            usage: "SELECT greatest(reltuples, 0)::bigint, pg_total_relation_size(oid) \
                    FROM pg_class WHERE oid = $1::text::regclass"
                .to_owned(),
        }
    }
}

/// The code of the error of a statement that would write nothing: a division by zero.
pub(crate) const NOTHING_WRITTEN: &str = "22012";

/// Fails if a statement writes nothing, whatever the reason: a record in the way, or a trigger on the table. A statement behind it in the same message, sent before its answer
/// is known, is then not executed.
fn or_fail(writes: &str) -> String {
    format!("WITH written AS ({writes}) SELECT 1 / count(*) FROM written")
}

/// The columns of a record, as parameters.
const VALUES: &str = "$1, $2::bytea, $3::text, $4::text, $5::text, $6::text, $7::bigint, $8::bigint, \
                      $9::bigint, $10::bigint, $11::bytea, $12::bytea, $13::bytea, \
                      clock_timestamp() + $14::bigint * interval '1 microsecond'";

/// Looks first, so that a repeat call writes nothing and waits for nobody who is writing the row.
fn insert(table: &str, found: &str, nothing: &str, on_conflict: &str) -> String {
    format!(
        "WITH found AS MATERIALIZED ({found}), \
         written AS ({into} SELECT {VALUES} WHERE NOT EXISTS (SELECT FROM found) \
         AND pg_try_advisory_xact_lock($15) {on_conflict} RETURNING 1) \
         SELECT 1::bigint, {nothing} FROM written UNION ALL SELECT 0, found.* FROM found",
        into = into(table),
    )
}

/// Replaces a record that is as seen.
fn update(table: &str, is_seen: &str) -> String {
    format!(
        "UPDATE {table} SET {}, response = $19, watched = watched AND token = $17, \
         updated_at = clock_timestamp(), \
         expires_at = clock_timestamp() + $20::bigint * interval '1 microsecond' \
         WHERE key = $1 AND {is_seen}",
        sets(11)
    )
}

fn into(table: &str) -> String {
    let head = HEAD.join(", ");
    format!(
        "INSERT INTO {table} AS record (key, long_key, operation, business_key, {head}, response, \
         expires_at)"
    )
}

/// Replaces a record that has expired, and no other.
fn unless_alive() -> String {
    format!(
        "ON CONFLICT (key) DO UPDATE SET {}, response = excluded.response, watched = false, \
         created_at = clock_timestamp(), updated_at = clock_timestamp(), \
         expires_at = clock_timestamp() + $14::bigint * interval '1 microsecond' \
         WHERE record.expires_at <= clock_timestamp()",
        sets(5)
    )
}

/// Writes a record where there is none, or one that is as seen.
fn replace_locked(table: &str) -> String {
    format!(
        "{} VALUES ({VALUES}) ON CONFLICT (key) DO UPDATE SET {}, response = excluded.response, \
         watched = false, created_at = CASE WHEN record.expires_at <= clock_timestamp() \
         THEN clock_timestamp() ELSE record.created_at END, updated_at = clock_timestamp(), \
         expires_at = clock_timestamp() + $14::bigint * interval '1 microsecond' \
         WHERE record.expires_at <= clock_timestamp() OR (TRUE{} AND ($23::bigint IS NULL OR \
         record.expires_at <= clock_timestamp() + $23 * interval '1 microsecond')) \
         RETURNING 1::bigint",
        into(table),
        sets(5),
        seen("record.", 15),
    )
}

/// Assignments of a head, from the parameter `first` on.
fn sets(first: usize) -> String {
    let mut text = String::new();
    for (at, column) in HEAD.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{column} = ${}", first + at);
    }
    text
}

/// Comparisons of the columns of `record` with a head, from the parameter `first` on.
fn seen(record: &str, first: usize) -> String {
    let mut text = String::new();
    for (at, column) in HEAD.iter().enumerate() {
        let equals = if *column == "fingerprint" { "IS NOT DISTINCT FROM" } else { "=" };
        let _ = write!(text, " AND {record}{column} {equals} ${}", first + at);
    }
    text
}

/// The statements that make the table, in order. They change nothing where it is there already.
pub(crate) fn schema(table: &str, index: &str) -> Vec<String> {
    let create = format!(
        "CREATE TABLE IF NOT EXISTS {table} (
    key bytea PRIMARY KEY,
    long_key bytea,
    operation text NOT NULL,
    business_key text NOT NULL,
    state text NOT NULL,
    policy text NOT NULL,
    attempt bigint NOT NULL,
    fence bigint NOT NULL,
    lease_ms bigint NOT NULL,
    linger_ms bigint NOT NULL,
    token bytea NOT NULL,
    fingerprint bytea,
    response bytea,
    watched boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
)"
    );
    let index = format!("CREATE INDEX IF NOT EXISTS {index} ON {table} (expires_at)");
    let version = format!("COMMENT ON TABLE {table} IS 'idempotency records, version {VERSION}'");
    vec![create, index, version]
}
