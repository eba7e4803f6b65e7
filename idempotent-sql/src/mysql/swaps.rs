//! Swaps: each is one message.
//!
//! A record that is to be new is looked for, then inserted unless it was there: a repeat call reads
//! it and locks nothing. The insert commits by itself, and its count says whether it wrote. The other
//! swaps lock the record, write it and count in one transaction, so that what was found is what the
//! write was compared with, at a time that was read after the wait for the lock.

use super::pool::Script;
use super::{Inner, Ran, statement};
use crate::client::{Param, Row};
use crate::columns::damaged;
use crate::columns::{HeadColumns, KeyColumns, micros, read_record};
use crate::dialect::mysql::Statements;
use crate::store_parts::{in_transaction, locked, still_as_seen};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{
    Found, Head, Next, Seen, StoreError, StoreErrorKind, Swap, Swapped, WhenFull,
};
use std::time::Duration;

/// The number of times that a swap is sent again after the record changed under it.
const ROUNDS: usize = 8;
/// The time for which a renewal tries to get hold of its record: it must not hold up others.
const RENEWAL_PATIENCE: Duration = Duration::from_millis(20);

/// The outcome of a message.
#[derive(Debug)]
enum Sent {
    Written,
    /// Nothing was written. This is there.
    Found(Option<Found>),
    /// Nothing was written, and what is there has not been seen: ask again.
    Unseen,
}

impl Inner {
    pub(super) async fn swap(&self, key: &RecordKey, swap: Swap) -> Result<Swapped, StoreError> {
        let answer = match self.swap_once(key, &swap).await {
            // Without its value if need be, as far as there is room for that.
            Err(error) if error.kind() == StoreErrorKind::Full => match without_value(swap) {
                Some(swap) => match self.swap_once(key, &swap).await? {
                    Swapped::Done => Swapped::DoneWithoutValue,
                    other => other,
                },
                None => return Err(error),
            },
            answer => answer?,
        };
        if !matches!(answer, Swapped::Found(_)) {
            self.wakes.wake(key);
        }
        Ok(answer)
    }

    async fn swap_once(&self, key: &RecordKey, swap: &Swap) -> Result<Swapped, StoreError> {
        let columns = KeyColumns::of(key);
        for _ in 0..ROUNDS {
            let sent = match (&swap.seen, &swap.next) {
                (Seen::Nothing, Next::Put { head, value, ttl, .. }) => {
                    let value = value.as_ref().map(|value| value.as_bytes());
                    self.insert(&columns, head, value, *ttl).await?
                }
                (Seen::Nothing, Next::Extend { .. } | Next::Nothing) => {
                    // Nothing to extend or remove: whatever is there is shown.
                    let name = [(&*columns.name).into()];
                    let mut rows = self.query(&self.statements.load, &name).await?;
                    Sent::Found(found(Some(&mut rows))?)
                }
                (Seen::This { head, at_most }, next) => {
                    self.replace(&columns, head, *at_most, next).await?
                }
            };
            match sent {
                Sent::Written => return Ok(Swapped::Done),
                Sent::Found(Some(found)) if still_as_seen(&swap.seen, &found) => {}
                Sent::Found(found) => return Ok(Swapped::Found(found)),
                Sent::Unseen => {}
            }
        }
        Err(in_transaction())
    }

    async fn insert(
        &self,
        key: &KeyColumns<'_>,
        head: &Head,
        value: Option<&[u8]>,
        ttl: Duration,
    ) -> Result<Sent, StoreError> {
        let Statements { load, look, insert, take_over, written: count, .. } = &self.statements;
        let name: Param<'_> = (&*key.name).into();
        let (operation, business_key) = (key.operation(), key.business_key());
        let head = HeadColumns::of(head);
        let mut next = Vec::with_capacity(10);
        next.extend(head.params());
        next.extend([Param::from(value), micros(ttl).into()]);

        let mut all = vec![name, Param::Bytes(key.long_key())];
        all.extend([Param::from(&*operation), Param::from(&*business_key)]);
        all.extend(&next);
        all.push(name);
        let look_first =
            [statement(load, &all[..1]), statement(insert, &all), statement(count, &[])];
        let script = self.fitting(Script::single(&look_first, 1), value)?;
        match self.run(&script, self.pool.settings().lock_timeout).await? {
            Ran::Answers(mut answers) => {
                if written(answers.get_mut(2))? > 0 {
                    return Ok(Sent::Written);
                }
                return Ok(match found(answers.first_mut())? {
                    Some(found) => Sent::Found(Some(found)),
                    // It came between the look and the insert.
                    None => Sent::Unseen,
                });
            }
            Ran::Duplicate => {}
        }

        // It has expired, or was committed while the insert waited for it.
        next.push(name);
        let name = [name];
        let replace = [statement(look, &name), statement(take_over, &next), statement(count, &[])];
        let script = self.fitting(Script::transaction(&replace), value)?;
        Ok(match self.run_in_transaction(&script).await? {
            Sent::Found(None) => Sent::Unseen,
            sent => sent,
        })
    }

    async fn replace(
        &self,
        key: &KeyColumns<'_>,
        seen: &Head,
        at_most: Option<Duration>,
        next: &Next,
    ) -> Result<Sent, StoreError> {
        let Statements { look, look_now, update, extend, delete, written: count, .. } =
            &self.statements;
        let name = [Param::from(&*key.name)];
        let seen = HeadColumns::of(seen);
        let head = match next {
            Next::Put { head, .. } => Some(HeadColumns::of(head)),
            Next::Extend { .. } | Next::Nothing => None,
        };
        let mut params = Vec::with_capacity(20);
        let mut value = None;
        let (look, write) = match next {
            Next::Put { value: response, ttl, .. } => {
                value = response.as_ref().map(|value| value.as_bytes());
                params.extend(head.iter().flat_map(HeadColumns::params));
                params.extend([Param::from(value), micros(*ttl).into()]);
                (look, update)
            }
            Next::Extend { ttl } => {
                params.push(micros(*ttl).into());
                (look_now, extend)
            }
            Next::Nothing => (look, delete),
        };
        params.extend(name);
        params.extend(seen.params());
        params.push(at_most.map(micros).into());
        let statements = [statement(look, &name), statement(write, &params), statement(count, &[])];
        let script = self.fitting(Script::transaction(&statements), value)?;
        match next {
            Next::Extend { .. } => match self.run(&script, RENEWAL_PATIENCE).await {
                Ok(ran) => sent(ran),
                // By a transaction that is about to write it.
                Err(error) if error.kind() == StoreErrorKind::Contended => Err(locked()),
                Err(error) => Err(error),
            },
            Next::Put { .. } | Next::Nothing => self.run_in_transaction(&script).await,
        }
    }

    async fn run_in_transaction(&self, script: &Script) -> Result<Sent, StoreError> {
        sent(self.run(script, self.pool.settings().lock_timeout).await?)
    }

    /// Refuses a message that the server would not read.
    fn fitting(&self, script: Script, value: Option<&[u8]>) -> Result<Script, StoreError> {
        if script.len() < self.server.longest_message {
            return Ok(script);
        }
        let text = format!(
            "MySQL: a value of {} bytes does not fit into a message of {}\nhelp: raise \
             `max_allowed_packet` of the server",
            value.map_or(0, <[u8]>::len),
            self.server.longest_message
        );
        Err(StoreError::new(StoreErrorKind::Full, text))
    }
}

/// The outcome of a look, a write and its count in a transaction.
fn sent(ran: Ran) -> Result<Sent, StoreError> {
    let Ran::Answers(mut answers) = ran else { return Ok(Sent::Unseen) };
    if written(answers.get_mut(3))? > 0 {
        return Ok(Sent::Written);
    }
    Ok(Sent::Found(found(answers.get_mut(1))?))
}

fn found(rows: Option<&mut Vec<Row>>) -> Result<Option<Found>, StoreError> {
    let row = rows.and_then(|rows| rows.first_mut());
    row.map(read_record).transpose().map_err(damaged)
}

/// The count of a writing statement.
pub(super) fn written(rows: Option<&mut Vec<Row>>) -> Result<i64, StoreError> {
    let row = rows.and_then(|rows| rows.first_mut());
    match row.map(Row::integer) {
        Some(Ok(Some(count))) => Ok(count),
        _ => {
            let text = "MySQL: the server did not say how many rows it wrote";
            Err(StoreError::new(StoreErrorKind::Unavailable, text))
        }
    }
}

/// The same swap without its value, if a store that is full has to take it.
fn without_value(mut swap: Swap) -> Option<Swap> {
    match &mut swap.next {
        Next::Put { value: value @ Some(_), when_full: WhenFull::Take, .. } => {
            *value = None;
            Some(swap)
        }
        _ => None,
    }
}
