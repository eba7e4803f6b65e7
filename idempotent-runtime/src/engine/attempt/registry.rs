//! The registry of the attempts that run in this process, through which the keeper finds them.
//!
//! # Locks
//! Each shard has a lock, held for a few instructions and never together with another one: a method
//! that visits all shards locks one after the other. Nothing is called under it that could take a
//! lock, except [`AttemptState::lose`], which only notifies.

use super::state::{AttemptState, RENEW_AGAIN_AFTER};
use super::striped_counter::StripedCounter;
use crate::clock::{Clock, Moment};
use crate::key::RecordKey;
use crate::protocol::{Progress, Update};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::{CachePadded, Mutex, Notify, lock, shards};
use std::sync::Arc;

const SHARDS: usize = shards(16);

/// The attempts that run in this process.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: [CachePadded<Mutex<Vec<Arc<AttemptState>>>>; SHARDS],
    /// In one order with what else a shutdown looks at: see [`Keeper`](super::keeper::Keeper).
    count: StripedCounter,
    /// The moment at which the keeper wakes next. An attempt that needs it earlier has to wake it.
    next_look: AtomicU64,
    keeper: Notify,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| CachePadded::default()),
            count: StripedCounter::new(),
            next_look: AtomicU64::new(Moment::FAR.as_nanos()),
            keeper: Notify::new(),
        }
    }

    pub(crate) fn insert(&self, state: &Arc<AttemptState>) {
        let mut shard = lock(self.shard(state));
        state.index.store(shard.len(), Relaxed);
        shard.push(Arc::clone(state));
        self.count.increment();
        drop(shard);
        if state.look_at().as_nanos() < self.next_look.load(Relaxed) {
            self.keeper.notify_one();
        }
    }

    pub(crate) fn remove(&self, state: &AttemptState) {
        state.end();
        let mut shard = lock(self.shard(state));
        let index = state.index.swap(usize::MAX, Relaxed);
        if index < shard.len() {
            shard.swap_remove(index);
            if let Some(moved) = shard.get(index) {
                moved.index.store(index, Relaxed);
            }
            self.count.decrement();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.get()
    }

    /// The attempts of this process on `key`. Every attempt is looked at: this is for operators.
    pub(crate) fn of(&self, key: &str) -> Vec<Arc<AttemptState>> {
        let all = self.shards.iter().flat_map(|shard| lock(shard).clone());
        all.filter(|state| state.key.as_str() == key).collect()
    }

    /// Asks the store at once whether the attempts on `key` still hold it.
    pub(crate) fn check(&self, key: &str) {
        for state in self.of(key) {
            state.renew_at.store(0, Relaxed);
        }
        self.keeper.notify_one();
    }

    pub(crate) fn wake_keeper(&self) {
        self.keeper.notify_one();
    }

    /// Resolves when an attempt needs the keeper earlier than it had planned, or it has to stop.
    pub(crate) async fn keeper_is_needed(&self) {
        self.keeper.notified().await;
    }

    /// Marks attempts whose lease ran out as lost, and returns those that are to be renewed now.
    ///
    /// From here on until the next look, an attempt that needs the keeper earlier than it found out
    /// here, or no later than `at_latest`, wakes it.
    pub(crate) fn look(&self, clock: &Clock, at_latest: Moment) -> Due {
        // While it looks, every new attempt wakes it: it may have passed that attempt's shard already.
        // Relaxed is enough. An attempt that is inserted behind the look takes the lock of its shard
        // after the look has released it, so it sees this value or the one that is stored at the end.
        self.next_look.store(Moment::FAR.as_nanos(), Relaxed);
        let now = clock.now();
        let mut due = Due { sent_at: now, renew: Vec::new(), lost: Vec::new(), next: Moment::FAR };
        for shard in &self.shards {
            for state in lock(shard).iter() {
                if now >= state.deadline() {
                    state.lose();
                }
                if state.take_loss() {
                    due.lost.push(Arc::clone(state));
                }
                let renew_at = Moment::from_nanos(state.renew_at.load(Relaxed));
                if renew_at <= now && now < state.renew_until {
                    // Until the answer comes, try again after another part of the lease.
                    let again = now.after(state.length / RENEW_AGAIN_AFTER);
                    state.renew_at.store(again.as_nanos(), Relaxed);
                    due.renew.push(Arc::clone(state));
                } else if renew_at <= now {
                    // It has run for too long: only its end is left to be seen.
                    state.renew_at.store(Moment::FAR.as_nanos(), Relaxed);
                }
                due.next = due.next.min(state.look_at());
            }
        }
        due.next = due.next.min(at_latest);
        self.next_look.store(due.next.as_nanos(), Relaxed);
        due
    }

    fn shard(&self, state: &AttemptState) -> &Mutex<Vec<Arc<AttemptState>>> {
        &self.shards[state.thread % SHARDS]
    }
}

/// Renewals that are due, as [`Registry::look`] found them.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) sent_at: Moment,
    pub(crate) renew: Vec<Arc<AttemptState>>,
    /// Those that have lost their lease, to be reported when no shard is locked.
    pub(crate) lost: Vec<Arc<AttemptState>>,
    pub(crate) next: Moment,
}

impl Due {
    /// Splits it into parts: one that the store does not answer holds up its own part only.
    pub(crate) fn batches(self) -> impl Iterator<Item = Self> {
        const BATCH: usize = 128;
        let Self { sent_at, next, renew, .. } = self;
        let parts: Vec<Vec<_>> = renew.chunks(BATCH).map(<[_]>::to_vec).collect();
        parts.into_iter().map(move |renew| Self { sent_at, renew, lost: Vec::new(), next })
    }

    /// The moment from which an answer extends none of these leases any more.
    pub(crate) fn worthless_from(&self) -> Moment {
        let longest = self.renew.iter().map(|state| state.length).max();
        self.sent_at.after(longest.unwrap_or_default())
    }

    pub(crate) fn requests(&self) -> Vec<(RecordKey, Update)> {
        let request = |state: &Arc<AttemptState>| {
            let to = Progress::Renewed { lease: state.length() };
            (state.key.clone(), Update { attempt: *state.id(), to })
        };
        self.renew.iter().map(request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Manual;
    use crate::engine::attempt::state::Terms;
    use crate::protocol::Binding;
    use crate::store::{AttemptId, Claim, Token};
    use std::time::Duration;

    const LEASE: Duration = Duration::from_secs(30);

    struct Bench {
        manual: Arc<Manual>,
        clock: Clock,
        registry: Registry,
    }

    fn bench() -> Bench {
        let manual = Arc::new(Manual::new());
        Bench { clock: Clock::manual(Arc::clone(&manual)), manual, registry: Registry::new() }
    }

    impl Bench {
        fn attempt(&self, max_run: Duration) -> Arc<AttemptState> {
            let claim = Claim::Window { window: LEASE };
            let token = Token::random();
            let id = AttemptId { token, number: 1, fence: 1, fingerprint: None, claim };
            let terms = Terms {
                retention: LEASE,
                length: LEASE,
                max_run,
                block_linger: None,
                binding: Binding::Lifted,
                locks_store: false,
                sent_at: self.clock.now(),
                clock: self.clock.clone(),
            };
            let state = AttemptState::new("o".into(), RecordKey::from("k"), id, &terms, 0, None);
            let state = Arc::new(state);
            self.registry.insert(&state);
            state
        }
    }

    #[test]
    fn a_lease_is_renewed_after_a_third_of_it() {
        let bench = bench();
        let state = bench.attempt(LEASE * 100);
        let due = bench.registry.look(&bench.clock, Moment::FAR);
        assert!(due.renew.is_empty());
        assert_eq!(due.next.since(bench.clock.now()), LEASE / 3);
        bench.manual.advance(LEASE / 3);
        let due = bench.registry.look(&bench.clock, Moment::FAR);
        assert_eq!(due.renew.len(), 1);
        state.extended(due.sent_at);
        assert_eq!(state.deadline().since(bench.clock.now()), LEASE);
    }

    #[test]
    fn an_unanswered_renewal_is_repeated_and_the_lease_then_lost() {
        let bench = bench();
        let state = bench.attempt(LEASE * 100);
        bench.manual.advance(LEASE / 3);
        assert_eq!(bench.registry.look(&bench.clock, Moment::FAR).renew.len(), 1);
        bench.manual.advance(LEASE / 6);
        assert_eq!(bench.registry.look(&bench.clock, Moment::FAR).renew.len(), 1);
        assert!(!state.is_lost());
        bench.manual.advance(LEASE);
        bench.registry.look(&bench.clock, Moment::FAR);
        assert!(state.is_lost());
    }

    #[test]
    fn a_renewal_that_is_answered_after_the_end_does_not_bring_the_lease_back() {
        let bench = bench();
        let state = bench.attempt(LEASE * 100);
        bench.manual.advance(LEASE / 3);
        let sent_at = bench.clock.now();
        bench.manual.advance(LEASE - LEASE / 3);
        state.extended(sent_at);
        assert!(state.is_lost());
    }

    #[test]
    fn renewing_stops_after_max_run() {
        let bench = bench();
        let state = bench.attempt(LEASE / 2);
        bench.manual.advance(LEASE / 2);
        let due = bench.registry.look(&bench.clock, Moment::FAR);
        assert!(due.renew.is_empty());
        assert_eq!(due.next, state.deadline());
        bench.manual.advance(LEASE / 2);
        let due = bench.registry.look(&bench.clock, Moment::FAR);
        assert!(state.is_lost());
        assert_eq!(due.next, Moment::FAR);
    }

    #[test]
    fn removing_one_lease_keeps_the_others_findable() {
        let bench = bench();
        let attempts: Vec<_> = (0..100).map(|_| bench.attempt(LEASE)).collect();
        for state in attempts.iter().step_by(2) {
            bench.registry.remove(state);
            bench.registry.remove(state);
        }
        assert_eq!(bench.registry.count(), 50);
        bench.manual.advance(LEASE / 3);
        assert_eq!(bench.registry.look(&bench.clock, Moment::FAR).renew.len(), 50);
    }
}
