//! Where the callers of one key in one process meet before they reach a store that is not local.
//!
//! A slot has one seat. Whoever sits in it talks to the store about this key; the others wait for
//! what it finds out. The seat, and with it a token that may already be on its way to the store,
//! passes on when its holder goes. So at most one `begin` of a key is under way per process, and
//! none is forgotten.

use super::awaited::{Attempts, Awaited};
use super::lease::Lease;
use crate::clock::Moment;
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::protocol::{BeginRequest, Begun, Binding};
use crate::store::{StoreError, StoreErrorKind, Value};
use crate::sync::{Mutex, Notify, OwnedNotified, RandomState, lock, shards};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::future::Future;
use std::hash::BuildHasher;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

const SHARDS: usize = shards(32);

/// All slots of an instance.
#[derive(Debug)]
pub(crate) struct Slots {
    shards: [Mutex<HashMap<RecordKey, Arc<Slot>>>; SHARDS],
    hasher: RandomState,
}

#[derive(Debug)]
struct Slot {
    state: Mutex<State>,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    seat: Seat,
    members: usize,
    /// The last answer to the one who sits: held by another process, for so long.
    in_flight: Option<Duration>,
    /// The attempt that runs in this process.
    holder: Option<Arc<Lease>>,
    /// What was seen of the attempts that its callers wait for.
    attempts: Attempts,
}

#[derive(Debug)]
enum Seat {
    /// Nobody talks to the store. A token that was sent before waits for the next one.
    Free(Option<Sent>),
    Taken,
    /// The body runs in this process.
    Running(Option<Fingerprint>),
    /// It is over; the slot is no longer in the map.
    Settled(Option<Fingerprint>, Shared),
}

/// A request that may have reached the store.
pub(crate) struct Sent {
    pub(crate) request: BeginRequest,
    /// How long the record is kept if its attempt is not the first and has to be released.
    pub(crate) retention: Duration,
    /// The payload that may follow in that case.
    pub(crate) binding: Binding,
    /// When it was first sent: the lease counts from here.
    pub(crate) at: Moment,
    /// Whether it was sent before without an answer: that `begin` may take effect at any time.
    pub(crate) unanswered: bool,
    /// The `begin` that carries it, if it has not been answered.
    pub(crate) begin: Option<BeginFuture>,
}

impl Sent {
    /// Polls its `begin`, which is taken out meanwhile: one that panics must not be polled again by
    /// whoever sits down next. To them it was sent, and not answered.
    pub(crate) fn poll_begin(&mut self, context: &mut Context<'_>) -> Poll<BeginOutput> {
        let Some(mut begin) = self.begin.take() else { return Poll::Pending };
        let unanswered = std::mem::replace(&mut self.unanswered, true);
        let answer = begin.as_mut().poll(context);
        self.unanswered = unanswered;
        if answer.is_pending() {
            self.begin = Some(begin);
        }
        answer
    }
}

type BeginOutput = Result<Begun, StoreError>;

/// A `begin` under way, owned, so that it can be handed on.
pub(crate) type BeginFuture = Pin<Box<dyn Future<Output = BeginOutput> + Send>>;

impl fmt::Debug for Sent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sent")
            .field("token", &self.request.token)
            .field("under_way", &self.begin.is_some())
            .finish_non_exhaustive()
    }
}

/// What the one who sat found out, for everybody.
#[derive(Clone, Debug)]
pub(crate) enum Shared {
    Succeeded {
        number: u32,
        value: Option<Value>,
    },
    FailedFinal {
        number: u32,
        value: Option<Value>,
    },
    Indeterminate {
        number: u32,
    },
    Refused(StoreErrorKind, String),
    /// Ask again: the body of this attempt ended without an answer.
    Failed {
        number: u32,
    },
    /// Ask again: the attempt does not hold the key any more, or the answer was not for everybody.
    Again,
}

/// What a caller is to do.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Sit down and talk to the store; here is what was sent before.
    Sit(Option<Sent>),
    /// It runs, and this caller does not wait for it.
    InFlight(Duration),
    Mismatch,
    Share(Shared),
    /// Nothing to be told yet.
    Wait,
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(HashMap::new())),
            hasher: RandomState::new(),
        }
    }

    pub(crate) fn join(&self, key: &RecordKey) -> Member {
        match lock(self.shard(key)).entry(key.clone()) {
            Entry::Occupied(entry) => {
                let mut state = lock(&entry.get().state);
                state.members += 1;
                Member { slot: Arc::clone(entry.get()), at_join: state.attempts }
            }
            Entry::Vacant(entry) => {
                let (seat, attempts) = (Seat::Free(None), Attempts::default());
                let state = State { seat, members: 1, in_flight: None, holder: None, attempts };
                let slot = Slot { state: Mutex::new(state), changed: Arc::default() };
                Member { slot: Arc::clone(entry.insert(Arc::new(slot))), at_join: attempts }
            }
        }
    }

    /// A caller goes. If it was the last one, what it leaves behind in the slot has no owner now.
    pub(crate) fn leave(&self, key: &RecordKey, member: &Member) -> Option<Sent> {
        // Under the lock of the shard, so that nobody joins a slot that is being removed.
        let mut shard = lock(self.shard(key));
        let mut state = lock(&member.slot.state);
        state.members -= 1;
        if state.members > 0 {
            return None;
        }
        if shard.get(key).is_some_and(|known| Arc::ptr_eq(known, &member.slot)) {
            shard.remove(key);
        }
        match &mut state.seat {
            Seat::Free(sent) => sent.take(),
            _ => None,
        }
    }

    /// It is over: those who wait share `shared`, those who come later meet in another slot.
    pub(crate) fn settle(
        &self,
        key: &RecordKey,
        member: &Member,
        fingerprint: Option<Fingerprint>,
        shared: Shared,
    ) {
        let mut shard = lock(self.shard(key));
        if shard.get(key).is_some_and(|known| Arc::ptr_eq(known, &member.slot)) {
            shard.remove(key);
        }
        drop(shard);
        let mut state = lock(&member.slot.state);
        if let Shared::Failed { number } = shared {
            state.attempts.fails(number);
        }
        state.seat = Seat::Settled(fingerprint, shared);
        drop(state);
        member.slot.changed.notify_waiters();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    fn shard(&self, key: &RecordKey) -> &Mutex<HashMap<RecordKey, Arc<Slot>>> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }
}

/// A caller in a slot. It has to [`leave`](Slots::leave).
#[derive(Debug)]
pub(crate) struct Member {
    slot: Arc<Slot>,
    /// What had been seen here before this caller came.
    at_join: Attempts,
}

impl Member {
    /// What a caller with this fingerprint is to do. If it is to sit, it sits from here on.
    pub(crate) fn turn(&self, fingerprint: Option<Fingerprint>, waits: Waits) -> Turn {
        let mut state = lock(&self.slot.state);
        let in_flight = state.in_flight;
        match (&mut state.seat, in_flight) {
            (Seat::Free(sent), _) => {
                let sent = sent.take();
                state.seat = Seat::Taken;
                Turn::Sit(sent)
            }
            (Seat::Running(running), _) if differ(*running, fingerprint) => Turn::Mismatch,
            (Seat::Taken | Seat::Running(_), Some(left)) if waits == Waits::No => {
                Turn::InFlight(left)
            }
            (Seat::Taken | Seat::Running(_), _) => Turn::Wait,
            // Every caller here has waited for this, and asks for itself: if the key stays bound,
            // the store tells those with another payload.
            (Seat::Settled(_, shared @ Shared::Failed { .. }), _) => Turn::Share(shared.clone()),
            // Whoever found out had its own payload compared; another one has to ask itself.
            (Seat::Settled(settled, _), _) if fingerprint.is_some() && fingerprint != *settled => {
                Turn::Share(Shared::Again)
            }
            (Seat::Settled(_, shared), _) => Turn::Share(shared.clone()),
        }
    }

    /// Tells a call what has been seen here of the attempts that it waits for.
    pub(super) fn tell(&self, awaited: &mut Awaited) {
        awaited.hears(lock(&self.slot.state).attempts, self.at_join);
    }

    /// The caller that asks the store saw that an attempt of another process has failed.
    pub(super) fn failed_elsewhere(&self, number: u32) {
        lock(&self.slot.state).attempts.fails(number);
        self.slot.changed.notify_waiters();
    }

    /// Resolves after the next change. To be called before [`turn`](Self::turn).
    pub(crate) fn changed(&self) -> OwnedNotified {
        Arc::clone(&self.slot.changed).notified_owned()
    }

    /// The caller that asks the store was told that an attempt of another process holds the key.
    pub(crate) fn in_flight_elsewhere(&self, number: u32, left: Duration) {
        let mut state = lock(&self.slot.state);
        state.attempts.runs(number);
        state.in_flight = Some(left);
        drop(state);
        self.slot.changed.notify_waiters();
    }

    /// The one who sat runs the body.
    pub(crate) fn running(&self, fingerprint: Option<Fingerprint>, lease: Duration) {
        let mut state = lock(&self.slot.state);
        state.seat = Seat::Running(fingerprint);
        state.in_flight = Some(lease);
        drop(state);
        self.slot.changed.notify_waiters();
    }

    /// Whose lease it is that the body runs under.
    pub(crate) fn held_by(&self, lease: &Arc<Lease>) {
        let mut state = lock(&self.slot.state);
        state.attempts.runs(lease.attempt().number);
        state.holder = Some(Arc::clone(lease));
    }

    /// The attempt that runs in this process, if one does.
    pub(crate) fn holder(&self) -> Option<Arc<Lease>> {
        let state = lock(&self.slot.state);
        state.holder.clone().filter(|_| matches!(state.seat, Seat::Running(_)))
    }

    /// The one who sat gets up without an answer.
    pub(crate) fn vacate(&self, sent: Option<Sent>) {
        let mut state = lock(&self.slot.state);
        state.seat = Seat::Free(sent);
        // The next one asks for itself.
        state.in_flight = None;
        drop(state);
        self.slot.changed.notify_waiters();
    }
}

/// Whether a caller waits for a body that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    Yes,
    No,
}

fn differ(running: Option<Fingerprint>, asking: Option<Fingerprint>) -> bool {
    matches!((running, asking), (Some(running), Some(asking)) if running != asking)
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
