//! The statements of an outbox.
//!
//! Each parameter occurs once, in the order of its number, so that a text differs between databases
//! in its placeholders only. Times are milliseconds since 1970 by the clock of the database.

use super::schema::Tables;
use super::{DeadLetterPolicy, Identifier};
use crate::client::Database;

/// Statements of a sender and of operators.
#[derive(Debug)]
pub(super) struct Statements {
    database: Database,
    tables: Tables,
}

impl Statements {
    pub(super) fn new(table: Identifier, database: Database) -> Self {
        Self { database, tables: Tables::new(table, database) }
    }

    /// Fills in placeholders: `#i`, `#b`, `#t` for an integer, a byte string, a text.
    fn text(&self, pattern: &str) -> String {
        let mut text = String::with_capacity(pattern.len() + 64);
        let mut pieces = pattern.split('#');
        text.push_str(pieces.next().unwrap_or_default());
        for (at, piece) in pieces.enumerate() {
            let (kind, rest) = piece.split_at(1);
            match (self.database, kind) {
                (Database::Postgres, "i") => text.push_str(&format!("${}::bigint", at + 1)),
                (Database::Postgres, "b") => text.push_str(&format!("${}::bytea", at + 1)),
                (Database::Postgres, _) => text.push_str(&format!("${}::text", at + 1)),
                (Database::Sqlite, _) => text.push_str(&format!("?{}", at + 1)),
                (Database::MySql, _) => text.push('?'),
            }
            text.push_str(rest);
        }
        text
    }

    fn now(&self) -> &'static str {
        match self.database {
            Database::Postgres => "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
            Database::Sqlite => {
                "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"
            }
            // Not `UNIX_TIMESTAMP`, which follows the time zone of the session.
            Database::MySql => {
                "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000)"
            }
        }
    }

    /// Holds a lane until the transaction ends, on a database without advisory locks: its id.
    pub(super) fn lock_row(&self) -> String {
        self.text(&format!("SELECT id FROM {} WHERE id = #i FOR UPDATE", self.tables.locks))
    }

    /// Writes a message: id, destination, key, type, payload, headers, lane; on PostgreSQL, first the
    /// number of the lock, or NULL.
    pub(super) fn insert(&self) -> String {
        let (messages, now) = (&self.tables.messages, self.now());
        let columns = "id, aggregatetype, aggregateid, type, payload, headers, lane, created_at";
        match self.database {
            // The number of the row is drawn for a row of `locked`, that is with the lock in hand.
            Database::Postgres => self.text(&format!(
                "WITH locked AS MATERIALIZED (SELECT pg_advisory_xact_lock(#i)) \
                 INSERT INTO {messages} ({columns}) \
                 SELECT #t, #t, #t, #t, #b, #t, #i, {now} FROM locked"
            )),
            Database::Sqlite | Database::MySql => self.text(&format!(
                "INSERT INTO {messages} ({columns}) VALUES (#t, #t, #t, #t, #b, #t, #i, {now})"
            )),
        }
    }

    /// Lanes above one, at most so many, each with the time until its first message is due (NULL if
    /// it never is) and the time for which it is claimed (NULL if it is not).
    pub(super) fn look(&self, policy: DeadLetterPolicy) -> String {
        let Tables { messages, claims, .. } = &self.tables;
        let now = self.now();
        let alive = passed_over(policy);
        let waits = format!(
            "(SELECT CASE WHEN head.dead_at IS NULL THEN head.retry_at - {now} END \
             FROM {messages} head WHERE head.lane = lanes.lane{alive} ORDER BY head.seq LIMIT 1), \
             (SELECT claims.expires_at - {now} FROM {claims} claims WHERE claims.lane = lanes.lane)"
        );
        match self.database {
            // From lane to lane by the index, however many messages each has.
            Database::Postgres | Database::Sqlite => self.text(&format!(
                "WITH RECURSIVE lanes (lane) AS (\
                 SELECT min(lane) FROM {messages} WHERE lane > #i UNION ALL \
                 SELECT (SELECT min(next.lane) FROM {messages} next WHERE next.lane > lanes.lane) \
                 FROM lanes WHERE lanes.lane IS NOT NULL) \
                 SELECT lanes.lane, {waits} FROM lanes WHERE lanes.lane IS NOT NULL LIMIT #i"
            )),
            Database::MySql => self.text(&format!(
                "SELECT lanes.lane, {waits} FROM (SELECT DISTINCT lane FROM {messages} \
                 WHERE lane > ? ORDER BY lane LIMIT ?) AS lanes ORDER BY lanes.lane"
            )),
        }
    }

    /// Claims a lane, unless it is claimed: lane, token, milliseconds. Returns a row if it did,
    /// except on MySQL, where [`is_claimed`](Self::is_claimed) tells.
    pub(super) fn claim(&self) -> String {
        let (claims, now) = (&self.tables.claims, self.now());
        let insert = format!(
            "INSERT INTO {claims} AS claims (lane, token, expires_at) VALUES (#i, #b, {now} + #i)"
        );
        match self.database {
            Database::Postgres | Database::Sqlite => self.text(&format!(
                "{insert} ON CONFLICT (lane) DO UPDATE \
                 SET token = excluded.token, expires_at = excluded.expires_at \
                 WHERE claims.expires_at <= {now} RETURNING lane"
            )),
            // Assignments take place from left to right: the second sees the first.
            Database::MySql => self.text(&format!(
                "INSERT INTO {claims} (lane, token, expires_at) VALUES (#i, #b, {now} + #i) \
                 ON DUPLICATE KEY UPDATE \
                 token = IF(expires_at <= {now}, VALUES(token), token), \
                 expires_at = IF(token = VALUES(token), VALUES(expires_at), expires_at)"
            )),
        }
    }

    /// A row if a lane is claimed by a token.
    pub(super) fn is_claimed(&self) -> String {
        let claims = &self.tables.claims;
        self.text(&format!("SELECT lane FROM {claims} WHERE lane = #i AND token = #b"))
    }

    /// The first messages of a lane, at most so many.
    pub(super) fn read(&self, policy: DeadLetterPolicy) -> String {
        let (messages, now, alive) = (&self.tables.messages, self.now(), passed_over(policy));
        self.text(&format!(
            "SELECT seq, {MESSAGE}, attempts, refusals, \
             CASE WHEN dead_at IS NULL THEN retry_at - {now} END \
             FROM {messages} head WHERE lane = #i{alive} ORDER BY seq LIMIT #i"
        ))
    }

    /// Deletes messages.
    pub(super) fn delete(&self, numbers: &[i64]) -> String {
        let numbers: Vec<_> = numbers.iter().map(i64::to_string).collect();
        format!("DELETE FROM {} WHERE seq IN ({})", self.tables.messages, numbers.join(", "))
    }

    /// Notes a failed delivery: refusals to add, milliseconds until the next try, error, 1 for a dead
    /// letter; of the message with this number and so many attempts.
    pub(super) fn fail(&self) -> String {
        let (messages, now) = (&self.tables.messages, self.now());
        self.text(&format!(
            "UPDATE {messages} SET attempts = attempts + 1, refusals = refusals + #i, \
             retry_at = {now} + #i, last_error = #t, \
             dead_at = CASE WHEN #i = 1 THEN {now} END WHERE seq = #i AND attempts = #i"
        ))
    }

    /// Gives up the claim of a lane: lane, token.
    pub(super) fn release(&self) -> String {
        let claims = &self.tables.claims;
        self.text(&format!("DELETE FROM {claims} WHERE lane = #i AND token = #b"))
    }

    /// Dead letters above a number, at most so many.
    pub(super) fn dead_letters(&self) -> String {
        let messages = &self.tables.messages;
        self.text(&format!(
            "SELECT seq, {MESSAGE}, attempts, dead_at, last_error \
             FROM {messages} WHERE dead_at IS NOT NULL AND seq > #i ORDER BY seq LIMIT #i"
        ))
    }

    /// The number of a dead letter: its id.
    pub(super) fn find_dead(&self) -> String {
        let messages = &self.tables.messages;
        self.text(&format!("SELECT seq FROM {messages} WHERE id = #t AND dead_at IS NOT NULL"))
    }

    /// Sends a dead letter again: its number.
    pub(super) fn revive(&self) -> String {
        let messages = &self.tables.messages;
        self.text(&format!(
            "UPDATE {messages} SET attempts = 0, refusals = 0, retry_at = 0, dead_at = NULL \
             WHERE seq = #i AND dead_at IS NOT NULL"
        ))
    }

    /// Deletes a dead letter: its number.
    pub(super) fn discard(&self) -> String {
        let messages = &self.tables.messages;
        self.text(&format!("DELETE FROM {messages} WHERE seq = #i AND dead_at IS NOT NULL"))
    }

    /// The number of messages, that of dead letters, and the age of the oldest message that is not
    /// dead.
    pub(super) fn backlog(&self) -> String {
        let (messages, now) = (&self.tables.messages, self.now());
        format!(
            "SELECT count(*), count(dead_at), \
             {now} - min(CASE WHEN dead_at IS NULL THEN created_at END) FROM {messages}"
        )
    }
}

/// The columns that make a message.
const MESSAGE: &str = "id, aggregatetype, aggregateid, type, payload, headers, created_at";

/// The condition that leaves out dead letters, where they do not hold up the messages behind them.
fn passed_over(policy: DeadLetterPolicy) -> &'static str {
    match policy {
        DeadLetterPolicy::HoldKey => "",
        DeadLetterPolicy::Skip => " AND head.dead_at IS NULL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: [Database; 3] = [Database::Postgres, Database::Sqlite, Database::MySql];

    #[test]
    fn placeholders_are_those_of_the_database() {
        let text = |database| Statements::new(Identifier::new("t"), database).release();
        assert_eq!(
            text(Database::Postgres),
            "DELETE FROM \"t_claims\" WHERE lane = $1::bigint AND token = $2::bytea"
        );
        assert_eq!(
            text(Database::Sqlite),
            "DELETE FROM \"t_claims\" WHERE lane = ?1 AND token = ?2"
        );
        assert_eq!(text(Database::MySql), "DELETE FROM `t_claims` WHERE lane = ? AND token = ?");
    }

    #[test]
    fn tables_stay_in_their_schema() {
        for database in EACH {
            let tables = Tables::new(Identifier::new("shop.outbox"), database);
            let mark = if database == Database::MySql { '`' } else { '"' };
            assert_eq!(tables.claims, format!("{mark}shop{mark}.{mark}outbox_claims{mark}"));
        }
    }
}
