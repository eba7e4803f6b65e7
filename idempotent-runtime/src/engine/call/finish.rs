//! The end of a transaction that a call has begun: the record, the commit, and the search for the
//! truth if that is not answered.
//!
//! It comes to its end whether or not the caller still waits for it.

use super::unrecorded::Effects;
use crate::engine::attempt::{AttemptGuard, End, Instance};
use crate::key::RecordKey;
use crate::protocol::{
    CommitError, Committed, Failure, OpenTransaction as _, TransactionSource, Updated,
};
use crate::race::{First, race};
use crate::store::{Next, State, Store, StoreError, StoreErrorKind, Swap, Swapped, Token};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// `true` if an attempt ends so that nothing of its transaction is left: its end is recorded without
/// it.
pub(super) fn is_rolled_back(effects: Effects, end: &End) -> bool {
    effects == Effects::Undone && matches!(end, End::Fail(Failure::Free(_)))
}

/// The end of a transaction: the record, the commit, and the search for the truth if that is not
/// answered.
pub(super) struct Finish<S: TransactionSource> {
    pub(super) source: S,
    pub(super) transaction: S::Transaction,
    pub(super) attempt: AttemptGuard<'static>,
    pub(super) key: RecordKey,
    pub(super) token: Token,
    pub(super) end: End,
    pub(super) swap: Option<Swap>,
    pub(super) effects: Effects,
    pub(super) patience: Duration,
}

/// The way in which a transaction ended.
pub(super) enum Finished {
    /// The record is written, and with it what the body wrote, if that was to be kept.
    Recorded(Updated),
    /// Nothing is written: another transaction, or another attempt, came first.
    LostRace(StoreError),
    /// Nothing is written.
    Failed(StoreError),
    /// No answer came, and none was to be had.
    Unknown(StoreError),
}

impl<S: TransactionSource> Finish<S> {
    /// Ends the transaction, and the attempt with it.
    pub(super) async fn run(self) -> (AttemptGuard<'static>, Finished) {
        let Self { source, transaction, mut attempt, key, token, end, swap, effects, patience } =
            self;
        let instance = Arc::clone(attempt.instance());
        let steps = Steps { source: &source, instance: &instance, key: &key, token, patience };
        let finished = match (effects, &end, swap) {
            (_, _, None) => Finished::Failed(no_end()),
            (effects, end, Some(swap)) if is_rolled_back(effects, end) => {
                steps.roll_back(transaction).await;
                freed(&*instance.store, &key, swap).await
            }
            (effects, _, Some(swap)) => steps.commit(transaction, effects, swap).await,
        };
        let updated = match &finished {
            Finished::Recorded(updated) => Some(*updated),
            _ => None,
        };
        attempt.ended_in_transaction(&end, updated);
        (attempt, finished)
    }
}

/// The last statements of a transaction, and the parts that they need.
///
/// None of them is waited for longer than the patience: a connection may be silent for ever, and
/// the caller would never be told.
struct Steps<'a, S> {
    source: &'a S,
    instance: &'a Instance,
    key: &'a RecordKey,
    token: Token,
    patience: Duration,
}

impl<S: TransactionSource> Steps<'_, S> {
    async fn commit(
        &self,
        mut transaction: S::Transaction,
        effects: Effects,
        swap: Swap,
    ) -> Finished {
        // A record that is not kept, or has expired meanwhile, does not tell whether it was there.
        let kept_until = match &swap.next {
            Next::Put { head, ttl, .. } if head.state != State::FailedFree => {
                self.instance.clock.now().after(*ttl)
            }
            _ => self.instance.clock.now(),
        };
        // Dropped without an answer, the transaction is not committed: the commit was not sent.
        let written = self.in_time(self.write(&mut transaction, effects, swap)).await;
        let updated = match written {
            Ok(Ok(updated)) => updated,
            Ok(Err(finished)) => {
                self.roll_back(transaction).await;
                return finished;
            }
            Err(error) => return Finished::Failed(error),
        };
        let committed = self.in_time(self.source.commit(transaction)).await;
        match committed.unwrap_or_else(|error| Err(CommitError::Unknown(error))) {
            Ok(()) => Finished::Recorded(updated),
            Err(CommitError::LostRace(error)) => Finished::LostRace(error),
            Err(CommitError::Failed(error)) => Finished::Failed(error),
            Err(CommitError::Unknown(error)) => {
                let (store, key, patience) = (&*self.instance.store, self.key, self.patience);
                let found = self.source.find_out(store, key, self.token, patience);
                // The database is asked to wait for as long itself.
                match self.within(patience * 2, found).await {
                    Ok(Ok(Committed::Yes)) => Finished::Recorded(updated),
                    Ok(Ok(Committed::No)) if self.instance.clock.now() < kept_until => {
                        Finished::Failed(error)
                    }
                    Ok(Ok(Committed::No) | Err(_)) | Err(_) => Finished::Unknown(error),
                }
            }
        }
    }

    /// Writes the record, and undoes the effects of a body that failed.
    async fn write(
        &self,
        transaction: &mut S::Transaction,
        effects: Effects,
        swap: Swap,
    ) -> Result<Updated, Finished> {
        if effects == Effects::Undone {
            transaction.undo().await.map_err(Finished::Failed)?;
        }
        match transaction.swap(self.key, swap).await {
            Ok(Swapped::Done) => Ok(Updated::Done),
            Ok(Swapped::DoneWithoutValue) => Ok(Updated::DoneWithoutValue),
            Ok(Swapped::Found(_)) => Err(Finished::LostRace(overtaken())),
            Err(error) if error.kind() == StoreErrorKind::Contended => {
                Err(Finished::LostRace(error))
            }
            Err(error) => Err(Finished::Failed(error)),
        }
    }

    /// Rolls back. Without an answer it is left to the database, which has lost its client.
    async fn roll_back(&self, transaction: S::Transaction) {
        let _ = self.in_time(self.source.roll_back(transaction)).await;
    }

    async fn in_time<T>(&self, answer: impl Future<Output = T>) -> Result<T, StoreError> {
        self.within(self.patience, answer).await
    }

    async fn within<T>(
        &self,
        patience: Duration,
        answer: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        let late = self.instance.sleep_until(self.instance.clock.now().after(patience));
        match race(answer, late).await {
            First::Left(answer) => Ok(answer),
            First::Right(()) => Err(not_in_time()),
        }
    }
}

/// Records that an attempt failed, so that attempts are counted. The key is free in any case.
async fn freed(store: &dyn Store, key: &RecordKey, swap: Swap) -> Finished {
    match store.swap(key, swap).await {
        Ok(Swapped::Done | Swapped::DoneWithoutValue) => Finished::Recorded(Updated::Done),
        Ok(Swapped::Found(_)) => Finished::LostRace(overtaken()),
        Err(error) => Finished::Failed(error),
    }
}

pub(super) fn not_in_time() -> StoreError {
    let text = "the database has not answered in time";
    StoreError::new(StoreErrorKind::Unavailable, text)
}

fn overtaken() -> StoreError {
    let text = "the record changed while the transaction was open; nothing was committed";
    StoreError::new(StoreErrorKind::Contended, text)
}

fn no_end() -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, "the attempt has no end of this kind")
}
