//! Single flight: the callers of one key in one process, before a store that is not local.
//!
//! One caller of a flight leads: it talks to the store about the key. The others follow, and wait for
//! the leader's finding. A leader that goes away passes on the lead, and with it a `begin` that may
//! already be on its way to the store. So at most one `begin` of a key is under way per process, and
//! none is forgotten.
//!
//! # Locks
//! The lock of a shard comes before that of a flight in it, and is not taken under one. Followers are
//! woken after both are released. A follower arms [`Member::woken`] before it reads the stage, so a change
//! in between wakes it.
//!
//! The followers of a flight are woken at once when it lands, and there may be thousands. So what it
//! landed with is published beside the lock, and who reads that takes no lock, not even to leave.

use super::alarms::{Alarm, Alarms, wake};
use super::awaited::{Awaited, SeenAttempts};
use super::not_granted::NotGranted;
use crate::clock::{Moment, Sleep};
use crate::engine::attempt::{AttemptState, PendingBegin};
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::sync::{Mutex, Notified, OnceLock, RandomState, lock, shards};
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
    /// Set once, under the lock, when the flight is over and no longer in the map, if there are followers.
    landed: OnceLock<Box<Landed>>,
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
    /// Those who wait for a change.
    alarms: Alarms,
}

#[derive(Debug)]
enum Stage {
    /// There is no leader. A `begin` that was sent before waits for the next one.
    Leaderless(Option<PendingBegin>),
    /// The leader talks to the store.
    Asking,
    /// The body of the leader runs in this process.
    Running(Option<Fingerprint>),
}

/// The end of a flight, as its followers read it. Without a finding, they ask again.
#[derive(Debug)]
struct Landed {
    fingerprint: Option<Fingerprint>,
    found: Option<NotGranted>,
    seen: SeenAttempts,
}

impl Landed {
    fn turn(&self, fingerprint: Option<Fingerprint>) -> Turn {
        match fingerprint.is_some() && fingerprint != self.fingerprint {
            // The leader had its own payload compared; a caller with another one has to ask.
            true => Turn::Landed(None),
            false => Turn::Landed(self.found.as_ref().and_then(NotGranted::share)),
        }
    }
}

/// The followers' interest in a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    ForFollowers,
    ForNobody,
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
    /// Wait for a change, and for the loss of the attempt that runs in this process.
    Wait(Option<Arc<AttemptState>>),
    /// End the flight: the attempt that runs in this process has lost its lease, and no longer speaks for the key.
    HolderLost,
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
                Member { key, flight, at_join: state.seen, alarm: None, is_founder: false }
            }
            Entry::Vacant(entry) => {
                let (stage, seen) = (Stage::Leaderless(None), SeenAttempts::default());
                let (in_flight, holder, alarms) = (None, None, Alarms::default());
                let state = State { stage, members: 1, in_flight, holder, seen, alarms };
                let flight = Flight { state: Mutex::new(state), landed: OnceLock::new() };
                let flight = Arc::clone(entry.insert(Arc::new(flight)));
                Member { key, flight, at_join: seen, alarm: None, is_founder: true }
            }
        }
    }

    /// Takes a caller out of its flight. A `begin` that the last one leaves behind has no owner.
    pub(crate) fn leave(&self, member: &Member) -> Option<PendingBegin> {
        if member.flight.landed.get().is_some() {
            // Nobody finds it any more, and nothing is left in it.
            return None;
        }
        let key = &member.key;
        // Under the lock of the shard, so that no caller joins a flight that is being removed.
        let mut shard = lock(self.shard(key));
        let mut state = lock(&member.flight.state);
        state.members -= 1;
        if let Some(alarm) = &member.alarm {
            state.alarms.leave(alarm);
        }
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
            if state.members > 1 {
                // One that has landed before has sent its followers to the store, which is as good.
                let seen = state.seen;
                member.flight.landed.get_or_init(|| Box::new(Landed { fingerprint, found, seen }));
            }
            News::ForFollowers
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

impl State {
    /// The leader was told that the key is held for so long. Only the first time is news: callers who do not wait for
    /// the holder are refused, and the others sleep on.
    fn is_held_for(&mut self, left: Duration) -> News {
        match self.in_flight.replace(left) {
            None => News::ForFollowers,
            Some(_) => News::ForNobody,
        }
    }
}

impl Flight {
    /// Changes the state for a member, and notifies the others if that is news for them.
    fn change(&self, change: impl FnOnce(&mut State) -> News) {
        let alarms = {
            let mut state = lock(&self.state);
            match change(&mut state) {
                // One that starts to wait after this sees the change.
                News::ForFollowers => state.alarms.all(),
                News::ForNobody => return,
            }
        };
        wake(&alarms);
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
    /// It waits, or has waited before it led.
    alarm: Option<Arc<Alarm>>,
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

    #[cfg(test)]
    pub(crate) fn turn(&self, fingerprint: Option<Fingerprint>, waits: Waits) -> Turn {
        self.hear(fingerprint, waits, &mut Awaited::default())
    }

    /// The next step of a caller with this fingerprint, which is told what was seen of the attempts that it waits for. If
    /// the step is to lead, it leads from here on.
    pub(super) fn hear(
        &self,
        fingerprint: Option<Fingerprint>,
        waits: Waits,
        awaited: &mut Awaited,
    ) -> Turn {
        let landed = |awaited: &mut Awaited| {
            let landed = self.flight.landed.get()?;
            awaited.hears(landed.seen, self.at_join);
            Some(landed.turn(fingerprint))
        };
        if let Some(turn) = landed(awaited) {
            return turn;
        }
        let mut state = lock(&self.flight.state);
        if let Some(turn) = landed(awaited) {
            return turn;
        }
        awaited.hears(state.seen, self.at_join);
        let State { stage, in_flight, holder, .. } = &mut *state;
        match (&mut *stage, *in_flight) {
            (Stage::Leaderless(begin), _) => {
                let begin = begin.take();
                *stage = Stage::Asking;
                Turn::Lead(begin)
            }
            (Stage::Running(_), _) if holder.as_ref().is_some_and(|holder| holder.is_lost()) => {
                Turn::HolderLost
            }
            (Stage::Running(running), _) if differ(*running, fingerprint) => Turn::Mismatch,
            (Stage::Asking | Stage::Running(_), Some(left)) if waits == Waits::No => {
                Turn::InFlight(left)
            }
            (Stage::Asking, _) => Turn::Wait(None),
            (Stage::Running(_), _) => Turn::Wait(holder.clone()),
        }
    }

    /// The leader saw that an attempt of another process has failed.
    pub(super) fn failed_elsewhere(&self, number: u32) {
        self.flight.change(|state| {
            state.seen.fails(number);
            News::ForFollowers
        });
    }

    /// This caller waits for changes from here on, until `deadline`.
    pub(crate) fn waits_until(
        &mut self,
        deadline: Moment,
        sleep_until: impl FnOnce(Moment) -> Sleep,
    ) {
        let mut state = lock(&self.flight.state);
        self.alarm.get_or_insert_with(|| state.alarms.join(deadline, sleep_until));
    }

    /// Resolves after the next change, and when the wait is over. To be called before [`hear`](Self::hear). `None` if this
    /// caller does not [wait](Self::waits_until).
    pub(crate) fn woken(&self) -> Option<Notified<'_>> {
        Some(self.alarm.as_ref()?.woken())
    }

    /// `true` if the wait is over.
    pub(crate) fn has_waited(&self) -> bool {
        self.alarm.as_ref().is_some_and(|alarm| alarm.has_rung())
    }

    /// The leader was told that an attempt of another process holds the key.
    pub(crate) fn in_flight_elsewhere(&self, number: u32, left: Duration) {
        self.flight.change(|state| {
            let before = state.seen;
            state.seen.runs(number);
            match state.is_held_for(left) {
                News::ForNobody if state.seen == before => News::ForNobody,
                _ => News::ForFollowers,
            }
        });
    }

    /// The leader was told that a transaction of another process holds the key.
    pub(crate) fn held_elsewhere(&self, left: Duration) {
        self.flight.change(|state| state.is_held_for(left));
    }

    /// The leader runs the body.
    pub(crate) fn running(&self, fingerprint: Option<Fingerprint>, lease: Duration) {
        self.flight.change(|state| {
            state.stage = Stage::Running(fingerprint);
            state.in_flight = Some(lease);
            News::ForFollowers
        });
    }

    /// The body runs as this attempt.
    pub(crate) fn held_by(&self, attempt: &Arc<AttemptState>) {
        let mut state = lock(&self.flight.state);
        state.seen.runs(attempt.id().number);
        state.holder = Some(Arc::clone(attempt));
    }

    /// The leader goes away without an answer, and leaves its `begin` to the next one.
    pub(crate) fn step_down(&self, begin: Option<PendingBegin>) {
        self.flight.change(|state| {
            state.stage = Stage::Leaderless(begin);
            // The next leader asks for itself.
            state.in_flight = None;
            News::ForFollowers
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
