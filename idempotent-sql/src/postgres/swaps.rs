//! Swaps: each is one statement, and knows what to expect of its key.

use super::hints::{Hint, Met};
use super::{Inner, ROUNDS, wakes};
use crate::client::Row;
use crate::columns::{KeyColumns, SwapColumns, SwapKind, damaged, read_record};
use crate::dialect::postgres::Statements;
use crate::store_parts::{in_transaction, locked, still_as_seen};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{Head, Next, Seen, State, StoreError, Swap, Swapped, Verb};
use std::sync::Arc;
use std::time::Duration;

impl Inner {
    pub(super) async fn swap(
        self: &Arc<Self>,
        key: &RecordKey,
        swap: &Swap,
    ) -> Result<Swapped, StoreError> {
        let columns = KeyColumns::of(key);
        let lock = columns.lock(&self.table.quoted);
        let mut insert = &self.statements.insert;
        let mut has_no_hint = false;
        if swap.verb == Verb::Begin && swap.seen == Seen::Nothing {
            match self.hints.of(lock) {
                Hint::Answered => {
                    if let Some(record) = self.load(key).await? {
                        return Ok(Swapped::Found(Some(record.into())));
                    }
                    self.hints.forget(lock);
                }
                Hint::Expired => insert = &self.statements.insert_over,
                Hint::None => {
                    has_no_hint = true;
                    if self.hints.expect_new() {
                        insert = &self.statements.insert_new;
                    }
                }
            }
        }
        for round in 0..ROUNDS {
            let mut rows = self.send(&columns, lock, swap, insert).await?;
            let mut row = rows.first_mut();
            let done = match &mut row {
                Some(row) => row.integer().map_err(damaged)?,
                None => None,
            };
            if std::mem::take(&mut has_no_hint) {
                self.hints.met(if done == Some(1) { Met::New } else { Met::Known });
            }
            let Some(row) = row else {
                if matches!(swap.seen, Seen::This { .. }) {
                    return Ok(Swapped::Found(None));
                }
                // A row is in the way that has expired, or could not be seen yet, or was not asked for; or
                // another `begin` or a transaction has the key.
                insert = &self.statements.insert_over;
                if round > 0 {
                    tokio::time::sleep(Duration::from_millis(1 << round.min(4))).await;
                }
                continue;
            };
            if let (Some(1 | 2), Next::Put { head, ttl, .. }) = (done, &swap.next) {
                self.note(lock, head, *ttl);
            }
            match done {
                Some(1) => {
                    // Watchers behind a pooler mark nothing, since no other process would hear.
                    if self.is_pooled() && !matches!(swap.next, Next::Extend { .. }) {
                        self.wakes.wake_here(&columns, &self.table.quoted);
                    }
                    return Ok(Swapped::Done);
                }
                Some(2) => {
                    self.wakes.announce(self, wakes::ended(&columns, &self.table.quoted));
                    return Ok(Swapped::Done);
                }
                Some(3) => {
                    // Mostly another `begin`, which is over in no time.
                    tokio::time::sleep(Duration::from_millis(1 << round.min(4))).await;
                    continue;
                }
                _ => {}
            }
            let found = read_record(row).map_err(damaged)?;
            self.note(lock, &found.head, found.ttl.unwrap_or_default());
            if still_as_seen(&swap.seen, &found) {
                match swap.next {
                    // Locked by a transaction that is about to write it.
                    Next::Extend { .. } => return Err(locked()),
                    // It was replaced while the statement waited for it.
                    Next::Put { .. } | Next::Nothing => continue,
                }
            }
            return Ok(Swapped::Found(Some(found)));
        }
        Err(in_transaction())
    }

    /// `true` if this key is likely to have no record.
    pub(crate) fn expects_new(&self, lock: i64) -> bool {
        self.hints.expect_new() && self.hints.of(lock) == Hint::None
    }

    /// Takes note of a key that a transaction has claimed, and which had a record or not.
    pub(crate) fn met(&self, lock: i64, is_new: bool) {
        if self.hints.of(lock) == Hint::None {
            self.hints.met(if is_new { Met::New } else { Met::Known });
        }
    }

    /// Takes note of a key that was expected to be new, and is not.
    pub(crate) fn met_known(&self) {
        self.hints.met(Met::Known);
    }

    /// Remembers a key that has its answer.
    pub(crate) fn note(&self, lock: i64, head: &Head, life: Duration) {
        if matches!(head.state, State::Succeeded | State::FailedFinal) {
            self.hints.remember(lock, life);
        }
    }

    async fn send(
        &self,
        key: &KeyColumns<'_>,
        lock: i64,
        swap: &Swap,
        insert: &str,
    ) -> Result<Vec<Row>, StoreError> {
        let columns = SwapColumns::of(key, swap);
        let Statements { update, settle, take_over, extend, delete, .. } = &self.statements;
        if let Some(params) = columns.settle_params() {
            let rows = self.query(settle, &params).await?;
            return if rows.is_empty() { self.show(key).await } else { Ok(rows) };
        }
        let mut params = columns.params();
        match columns.kind {
            SwapKind::Insert => {
                params.push(lock.into());
                self.query(insert, &params).await
            }
            SwapKind::Update if swap.verb == Verb::Begin => {
                params.push(lock.into());
                self.query(take_over, &params).await
            }
            SwapKind::Update => {
                let rows = self.query(update, &params).await?;
                // Showing it in the same statement would cost every completion.
                if rows.is_empty() { self.show(key).await } else { Ok(rows) }
            }
            SwapKind::Extend => self.query(extend, &params).await,
            SwapKind::Delete => self.query(delete, &params).await,
            SwapKind::Show => self.show(key).await,
        }
    }

    /// The record, as statements show it that have not written.
    async fn show(&self, key: &KeyColumns<'_>) -> Result<Vec<Row>, StoreError> {
        let rows = self.look(&key.name).await?;
        Ok(rows.into_iter().map(|row| row.prefixed(0)).collect())
    }
}
