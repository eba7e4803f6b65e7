//! Single flight: the callers of one key in one process, before a store that is not local.
//!
//! One caller of a flight leads: it talks to the store about the key. The others follow, and wait for
//! the leader's finding. A leader that goes away passes on the lead, and with it a `begin` that may
//! already be on its way to the store. So at most one `begin` of a key is under way per process, and
//! none is forgotten.
//!
//! # Locks
//! The lock of a shard comes before that of a flight in it, and is not taken under one. Followers are
//! notified after both are released. A follower arms [`Member::changed`] before it reads the stage,
//! so a change in between wakes it.

use super::awaited::{Awaited, SeenAttempts};
use super::not_granted::NotGranted;
use crate::engine::attempt::{AttemptState, PendingBegin};
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::sync::{Mutex, Notify, OwnedNotified, RandomState, lock, shards};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

const SHARDS: usize = shards(32);

/// All flights of an instance.
#[derive(Debug)]
pub(crate) struct Flights {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

type Shard = HashMap<HashedKey, Arc<Flight>, BuildHasherDefault<Known>>;

/// A key with its hash, which is made once a call and not once a lookup.
#[derive(Clone, Debug)]
struct HashedKey {
    hash: u64,
    key: RecordKey,
}

impl PartialEq for HashedKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.key == other.key
    }
}

impl Eq for HashedKey {}

impl Hash for HashedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hasher for what has its hash already.
#[derive(Debug, Default)]
struct Known(u64);

impl Hasher for Known {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[derive(Debug)]
struct Flight {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    members: usize,
    /// The last answer to the leader: held by another process, for so long.
    in_flight: Option<Duration>,
    /// The attempt that runs in this process.
    holder: Option<Arc<AttemptState>>,
    /// The attempts that its callers wait for, as far as they were seen.
    seen: SeenAttempts,
    /// `None` until a caller waits for a change: in most flights none does.
    changed: Option<Arc<Notify>>,
}

#[derive(Debug)]
enum Stage {
    /// There is no leader. A `begin` that was sent before waits for the next one.
    Leaderless(Option<PendingBegin>),
    /// The leader talks to the store.
    Asking,
    /// The body of the leader runs in this process.
    Running(Option<Fingerprint>),
    /// It is over, and the flight is no longer in the map. Without a finding, followers ask again.
    Landed(Option<Fingerprint>, Option<NotGranted>),
}

/// The next step of a caller.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Lead: talk to the store. A `begin` that was sent before comes with the lead.
    Lead(Option<PendingBegin>),
    /// Refuse: it runs, and this caller does not wait for it.
    InFlight(Duration),
    /// Refuse: it runs with another payload.
    Mismatch,
    /// Answer with what the leader found; without that, ask again.
    Landed(Option<NotGranted>),
    /// Wait for a change.
    Wait,
}

impl Flights {
    pub(crate) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }

    pub(crate) fn join(&self, key: &RecordKey) -> Member {
        let key = HashedKey { hash: self.hasher.hash_one(key), key: key.clone() };
        match lock(self.shard(&key)).entry(key.clone()) {
            Entry::Occupied(entry) => {
                let mut state = lock(&entry.get().state);
                state.members += 1;
                let flight = Arc::clone(entry.get());
                Member { key, flight, at_join: state.seen, is_founder: false }
            }
            Entry::Vacant(entry) => {
                let (stage, seen) = (Stage::Leaderless(None), SeenAttempts::default());
                let (in_flight, holder, changed) = (None, None, None);
                let state = State { stage, members: 1, in_flight, holder, seen, changed };
                let flight = Flight { state: Mutex::new(state) };
                let flight = Arc::clone(entry.insert(Arc::new(flight)));
                Member { key, flight, at_join: seen, is_founder: true }
            }
        }
    }

    /// Takes a caller out of its flight. A `begin` that the last one leaves behind has no owner.
    pub(crate) fn leave(&self, member: &Member) -> Option<PendingBegin> {
        let key = &member.key;
        // Under the lock of the shard, so that no caller joins a flight that is being removed.
        let mut shard = lock(self.shard(key));
        let mut state = lock(&member.flight.state);
        state.members -= 1;
        if state.members > 0 {
            return None;
        }
        if shard.get(key).is_some_and(|known| Arc::ptr_eq(known, &member.flight)) {
            shard.remove(key);
        }
        match &mut state.stage {
            Stage::Leaderless(begin) => begin.take(),
            _ => None,
        }
    }

    /// Ends a flight: its followers share what was found, and later callers meet in another one.
    ///
    /// The caller that ends it need not [`leave`](Self::leave): nobody finds it any more.
    pub(crate) fn land(&self, member: &Member, landing: Landing) {
        let key = &member.key;
        let mut shard = lock(self.shard(key));
        if shard.get(key).is_some_and(|known| Arc::ptr_eq(known, &member.flight)) {
            shard.remove(key);
        }
        drop(shard);
        let Landing { fingerprint, found, failed } = landing;
        member.flight.change(|state| {
            if let Some(number) = failed {
                state.seen.fails(number);
            }
            state.stage = Stage::Landed(fingerprint, found);
        });
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// By other bits of the hash than those by which a map finds a key.
    fn shard(&self, key: &HashedKey) -> &Mutex<Shard> {
        &self.shards[(key.hash >> 32) as usize % SHARDS]
    }
}

impl Flight {
    /// Changes the state, and notifies those who wait for that.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let changed = {
            let mut state = lock(&self.state);
            change(&mut state);
            // One that starts to wait after this sees the change.
            state.changed.clone()
        };
        if let Some(changed) = changed {
            changed.notify_waiters();
        }
    }
}

/// The end of a flight. The default one sends every follower to the store.
#[derive(Debug, Default)]
pub(crate) struct Landing {
    /// The payload of the leader.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) found: Option<NotGranted>,
    /// The attempt whose body ended without an answer.
    pub(crate) failed: Option<u32>,
}

/// A caller in a flight. It has to [`leave`](Flights::leave), or to [`land`](Flights::land) the flight.
#[derive(Debug)]
pub(crate) struct Member {
    key: HashedKey,
    flight: Arc<Flight>,
    /// The attempts that had been seen here before this caller came.
    at_join: SeenAttempts,
    /// It was the first one in the flight.
    is_founder: bool,
}

impl Member {
    /// The key of the flight.
    pub(super) fn key(&self) -> &RecordKey {
        &self.key.key
    }

    /// `true` if the flight began with this caller: nothing was seen in it before.
    pub(super) fn is_founder(&self) -> bool {
        self.is_founder
    }

    /// The next step of a caller with this fingerprint. If that is to lead, it leads from here on.
    pub(crate) fn turn(&self, fingerprint: Option<Fingerprint>, waits: Waits) -> Turn {
        let mut state = lock(&self.flight.state);
        let in_flight = state.in_flight;
        match (&mut state.stage, in_flight) {
            (Stage::Leaderless(begin), _) => {
                let begin = begin.take();
                state.stage = Stage::Asking;
                Turn::Lead(begin)
            }
            (Stage::Running(running), _) if differ(*running, fingerprint) => Turn::Mismatch,
            (Stage::Asking | Stage::Running(_), Some(left)) if waits == Waits::No => {
                Turn::InFlight(left)
            }
            (Stage::Asking | Stage::Running(_), _) => Turn::Wait,
            // The leader had its own payload compared; a caller with another one has to ask.
            (Stage::Landed(landed, _), _) if fingerprint.is_some() && fingerprint != *landed => {
                Turn::Landed(None)
            }
            (Stage::Landed(_, found), _) => {
                Turn::Landed(found.as_ref().and_then(NotGranted::share))
            }
        }
    }

    /// Tells a call which of the attempts that it waits for have been seen here.
    pub(super) fn tell(&self, awaited: &mut Awaited) {
        awaited.hears(lock(&self.flight.state).seen, self.at_join);
    }

    /// The leader saw that an attempt of another process has failed.
    pub(super) fn failed_elsewhere(&self, number: u32) {
        self.flight.change(|state| state.seen.fails(number));
    }

    /// Resolves after the next change. To be called before [`turn`](Self::turn).
    pub(crate) fn changed(&self) -> OwnedNotified {
        let mut state = lock(&self.flight.state);
        Arc::clone(state.changed.get_or_insert_default()).notified_owned()
    }

    /// The leader was told that an attempt of another process holds the key.
    pub(crate) fn in_flight_elsewhere(&self, number: u32, left: Duration) {
        self.flight.change(|state| {
            state.seen.runs(number);
            state.in_flight = Some(left);
        });
    }

    /// The leader was told that a transaction of another process holds the key.
    pub(crate) fn held_elsewhere(&self, left: Duration) {
        self.flight.change(|state| state.in_flight = Some(left));
    }

    /// The leader runs the body.
    pub(crate) fn running(&self, fingerprint: Option<Fingerprint>, lease: Duration) {
        self.flight.change(|state| {
            state.stage = Stage::Running(fingerprint);
            state.in_flight = Some(lease);
        });
    }

    /// The body runs as this attempt.
    pub(crate) fn held_by(&self, attempt: &Arc<AttemptState>) {
        let mut state = lock(&self.flight.state);
        state.seen.runs(attempt.id().number);
        state.holder = Some(Arc::clone(attempt));
    }

    /// The attempt that runs in this process, if one does.
    pub(crate) fn holder(&self) -> Option<Arc<AttemptState>> {
        let state = lock(&self.flight.state);
        state.holder.clone().filter(|_| matches!(state.stage, Stage::Running(_)))
    }

    /// The leader goes away without an answer, and leaves its `begin` to the next one.
    pub(crate) fn step_down(&self, begin: Option<PendingBegin>) {
        self.flight.change(|state| {
            state.stage = Stage::Leaderless(begin);
            // The next leader asks for itself.
            state.in_flight = None;
        });
    }
}

/// A caller's choice while a body runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    Yes,
    No,
}

fn differ(running: Option<Fingerprint>, asking: Option<Fingerprint>) -> bool {
    matches!((running, asking), (Some(running), Some(asking)) if running != asking)
}

#[cfg(test)]
#[path = "flights_tests.rs"]
mod tests;
