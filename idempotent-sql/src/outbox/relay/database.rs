//! The statements of a relay, each group in a short transaction.

use super::DeadLetterPolicy;
use crate::client::{Database, Param, Row, SqlConnection, SqlError, Statement};
use crate::entity::Identifier;
use crate::outbox::lane::Lane;
use crate::outbox::statements::Statements;
use crate::outbox::{OutboxMessage, Outgoing, unnamed};
use crate::{Isolation, TransactionPool};
use idempotent_runtime::store::Token;
use std::collections::BTreeMap;
use std::time::Duration;

/// The tables of an outbox, through a pool.
pub(super) struct Tables<P> {
    pool: P,
    statements: Statements,
    texts: Texts,
}

/// The statements that have no variable part.
struct Texts {
    look: String,
    claim: String,
    is_claimed: String,
    read: String,
    fail: String,
    release: String,
}

/// A key that has messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) lane: Lane,
    /// The time until it can be taken; `None` if a dead letter holds it.
    pub(super) due_in: Option<Duration>,
}

/// A message with its place and its history.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) seq: i64,
    pub(super) message: OutboxMessage,
    /// A reason why it cannot be sent: it was not written by this crate.
    pub(super) damage: Option<&'static str>,
    pub(super) attempts: i64,
    pub(super) refusals: i64,
    /// Milliseconds until it may be sent; `None` for a dead letter.
    pub(super) due_in: Option<i64>,
}

/// A failed delivery, to be noted.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) seq: i64,
    pub(super) attempts: i64,
    pub(super) refusals: i64,
    /// `None` for a dead letter.
    pub(super) retry_after: Option<Duration>,
    pub(super) error: String,
}

impl<P: TransactionPool> Tables<P> {
    pub(super) fn new(table: Identifier, pool: P, policy: DeadLetterPolicy) -> Self {
        let statements = Statements::new(table, pool.database());
        let texts = Texts {
            look: statements.look(policy),
            claim: statements.claim(),
            is_claimed: statements.is_claimed(),
            read: statements.read(policy),
            fail: statements.fail(),
            release: statements.release(),
        };
        Self { pool, statements, texts }
    }

    /// Keys above this one, in their order, at most so many.
    pub(super) async fn look(&self, above: Lane, limit: usize) -> Result<Vec<Found>, SqlError> {
        let mut transaction = self.pool.begin(Isolation::Default).await?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params = [Param::from(above.0), Param::from(limit)];
        let rows = transaction.query(named(&self.texts.look, &params)).await?;
        self.pool.commit(transaction).await?;
        let found = |mut row: Row| {
            let lane = Lane(row.integer()?.ok_or_else(missing)?);
            let (message, claim) = (row.integer()?, row.integer()?);
            let millis = message.map(|message| message.max(claim.unwrap_or(0)).max(0));
            let due_in = millis.map(|millis| Duration::from_millis(millis.unsigned_abs()));
            Ok(Found { lane, due_in })
        };
        rows.into_iter().map(found).collect()
    }

    /// Claims a key and reads its first messages. Keeps the claim only if `wanted` leaves some.
    pub(super) async fn take(
        &self,
        lane: Lane,
        token: Token,
        lease: Duration,
        limit: u32,
        wanted: fn(Vec<Stored>) -> Vec<Stored>,
    ) -> Result<Vec<Stored>, SqlError> {
        let mut transaction = self.pool.begin(Isolation::Default).await?;
        let token = token.to_bytes();
        let lease = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 4);
        let params = [Param::from(lane.0), Param::from(&token[..]), Param::from(lease)];
        let mut claimed = transaction.query(named(&self.texts.claim, &params)).await?;
        if self.pool.database() == Database::MySql {
            claimed = transaction.query(named(&self.texts.is_claimed, &params[..2])).await?;
        }
        let mut rows = Vec::new();
        if !claimed.is_empty() {
            let params = [Param::from(lane.0), Param::from(i64::from(limit))];
            let found = transaction.query(named(&self.texts.read, &params)).await?;
            rows = wanted(found.into_iter().map(stored).collect::<Result<_, _>>()?);
        }
        match rows.is_empty() {
            true => self.pool.roll_back(transaction).await,
            false => self.pool.commit(transaction).await?,
        }
        Ok(rows)
    }

    /// Deletes messages that were confirmed, notes a failed one, and gives the key back.
    ///
    /// A message that was confirmed is deleted even if another relay holds the key by now; a failure
    /// counts only if none was counted since the message was read.
    pub(super) async fn settle(
        &self,
        lane: Lane,
        token: Token,
        confirmed: &[i64],
        failed: Option<&Failed>,
    ) -> Result<(), SqlError> {
        let mut transaction = self.pool.begin(Isolation::Default).await?;
        if !confirmed.is_empty() {
            let text = self.statements.delete(confirmed);
            transaction.query(unnamed(&text, &[])).await?;
        }
        if let Some(failed) = failed {
            let after = failed.retry_after.unwrap_or_default().as_millis();
            let params = [
                Param::from(failed.refusals),
                Param::from(i64::try_from(after).unwrap_or(i64::MAX / 4)),
                Param::from(&*failed.error),
                Param::from(i64::from(failed.retry_after.is_none())),
                Param::from(failed.seq),
                Param::from(failed.attempts),
            ];
            transaction.query(named(&self.texts.fail, &params)).await?;
        }
        let token = token.to_bytes();
        let params = [Param::from(lane.0), Param::from(&token[..])];
        transaction.query(named(&self.texts.release, &params)).await?;
        self.pool.commit(transaction).await
    }
}

fn named<'a>(text: &'a str, params: &'a [Param<'a>]) -> Statement<'a> {
    Statement { text, params, preparation: Default::default() }
}

fn stored(mut row: Row) -> Result<Stored, SqlError> {
    let seq = row.integer()?.ok_or_else(missing)?;
    let (mut message, damage) = read_message(&mut row)?;
    let attempts = row.integer()?.unwrap_or_default();
    let refusals = row.integer()?.unwrap_or_default();
    message.failures = u32::try_from(attempts).unwrap_or(u32::MAX);
    Ok(Stored { seq, message, damage, attempts, refusals, due_in: row.integer()? })
}

/// The columns that make a message, in the order of the statements, and what is wrong with them.
pub(in crate::outbox) fn read_message(
    row: &mut Row,
) -> Result<(OutboxMessage, Option<&'static str>), SqlError> {
    let mut text = || -> Result<String, SqlError> { row.text()?.ok_or_else(missing) };
    let (id, destination, key, kind) = (text()?, text()?, text()?, text()?);
    let payload = row.bytes()?.unwrap_or_default();
    let headers = row.text()?.map(|text| serde_json::from_str(&text)).transpose();
    let damage = headers.is_err().then_some("the headers are not a JSON object of texts");
    let headers: BTreeMap<String, String> = headers.unwrap_or_default().unwrap_or_default();
    let created_at = row.integer()?.unwrap_or_default();
    let mut outgoing = Outgoing::new(destination, id, payload).with_kind(kind);
    // The key of an unordered message is its id, which no other message has.
    if key != outgoing.id() {
        outgoing = outgoing.with_key(key);
    }
    for (name, value) in headers {
        outgoing = outgoing.with_header(name, value);
    }
    Ok((OutboxMessage { outgoing, created_at, failures: 0 }, damage))
}

fn missing() -> SqlError {
    SqlError::unexpected("a value is missing")
}
