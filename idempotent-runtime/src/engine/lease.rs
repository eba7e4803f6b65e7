//! The attempts that run in this process, and how long each may count on its key.
//!
//! A lease is counted on the monotonic clock from before its token was first sent, so the holder
//! always believes it ends earlier than the store does.

use super::admission::Permit;
use super::calls::Calls;
use crate::clock::{Clock, Moment};
use crate::current::Current;
use crate::key::RecordKey;
use crate::operation_name::OperationName;
use crate::protocol::{Binding, Progress, Update};
use crate::store::AttemptId;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use crate::sync::{CachePadded, Mutex, Notify, lock, shards, thread_number};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// One attempt of this process.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) operation: OperationName,
    pub(crate) key: RecordKey,
    /// As it was granted.
    granted: AttemptId,
    /// As it is once its key is armed; `None` if the key does not block. Boxed: most keys do not.
    blocking: Option<Box<AttemptId>>,
    /// The key may be armed: that was asked for, whether or not the store has answered.
    may_block: AtomicBool,
    /// The store has acknowledged that the key is armed.
    armed: AtomicBool,
    /// How long the answer of this attempt is kept.
    pub(crate) retention: Duration,
    /// The payload that may follow if this attempt ends without an answer.
    pub(crate) binding: Binding,
    /// Which instance granted it.
    pub(crate) instance: usize,
    /// The attempt inside whose body this one was begun.
    pub(crate) parent: Option<Current>,
    /// The permit of its body, which calls inside the body share. Not set without a limit, and
    /// empty when the body has ended, so that a `Current` that is kept does not keep the permit.
    permit: OnceLock<Mutex<Option<Arc<Permit>>>>,
    length: Duration,
    granted_until: Moment,
    /// Renewing stops here, so that a hung body does not hold its key for ever.
    renew_until: Moment,
    deadline: AtomicU64,
    renew_at: AtomicU64,
    lost: AtomicBool,
    lost_signal: Notify,
    /// The attempt has ended; the key is no longer held by it.
    ended: AtomicBool,
    clock: Clock,
    /// Which shard of the registry holds it: that of the thread it was begun on.
    shard: usize,
    /// Where in its shard it stands.
    index: AtomicUsize,
}

/// What a new lease is made of.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) retention: Duration,
    pub(crate) length: Duration,
    pub(crate) max_run: Duration,
    /// The linger of a key that blocks; `None` if it does not.
    pub(crate) block_linger: Option<Duration>,
    /// The payload that may follow an attempt that ends without an answer.
    pub(crate) binding: Binding,
    /// When the token was first sent, on this clock.
    pub(crate) sent_at: Moment,
    pub(crate) clock: Clock,
}

impl Lease {
    pub(crate) fn new(
        operation: OperationName,
        key: RecordKey,
        attempt: AttemptId,
        terms: &Terms,
        instance: usize,
        parent: Option<Current>,
    ) -> Self {
        Self {
            operation,
            key,
            granted: attempt,
            blocking: terms.block_linger.map(|linger| Box::new(attempt.armed(linger))),
            may_block: AtomicBool::new(false),
            armed: AtomicBool::new(false),
            retention: terms.retention,
            binding: terms.binding,
            instance,
            parent,
            permit: OnceLock::new(),
            length: terms.length,
            granted_until: terms.sent_at.after(terms.length),
            renew_until: terms.sent_at.after(terms.max_run),
            deadline: AtomicU64::new(terms.sent_at.after(terms.length).as_nanos()),
            renew_at: AtomicU64::new(terms.sent_at.after(terms.length / 3).as_nanos()),
            lost: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            clock: terms.clock.clone(),
            lost_signal: Notify::new(),
            shard: thread_number() % SHARDS,
            index: AtomicUsize::new(usize::MAX),
        }
    }

    /// The attempt as its record has it.
    pub(crate) fn attempt(&self) -> &AttemptId {
        match &self.blocking {
            Some(blocking) if self.armed.load(Relaxed) => blocking,
            _ => &self.granted,
        }
    }

    /// The attempt as its record may have it at most: armed, if that was asked for.
    pub(crate) fn longest(&self) -> &AttemptId {
        match &self.blocking {
            Some(blocking) if self.may_block() => blocking,
            _ => &self.granted,
        }
    }

    /// The request that arms the key before the body starts; `None` if the key does not block. The key
    /// counts as one that may be armed from here on.
    pub(crate) fn arm_request(&self) -> Option<Update> {
        let linger = self.blocking.as_ref()?.claim.linger();
        self.may_block.store(true, Relaxed);
        Some(Update { attempt: self.granted, to: Progress::Armed { linger } })
    }

    /// The store armed the key; the request had been sent at `sent_at`.
    pub(crate) fn armed(&self, sent_at: Moment) {
        self.armed.store(true, Relaxed);
        self.extended(sent_at);
    }

    /// `true` if the key is armed: it blocks if this attempt never ends.
    pub(crate) fn blocks(&self) -> bool {
        self.armed.load(Relaxed)
    }

    /// Whether the key may be armed, so that it could block although its body never started.
    pub(crate) fn may_block(&self) -> bool {
        self.may_block.load(Relaxed)
    }

    /// Its body runs with this permit.
    pub(crate) fn runs_with(&self, permit: Arc<Permit>) {
        let _ = self.permit.set(Mutex::new(Some(permit)));
    }

    /// The permit of its body, until that has ended.
    pub(crate) fn permit(&self) -> Option<Arc<Permit>> {
        lock(self.permit.get()?).clone()
    }

    /// Its body has ended. The permit is the body's, not the record's: it goes before the store has
    /// answered.
    pub(crate) fn body_ended(&self) {
        if let Some(permit) = self.permit.get() {
            drop(lock(permit).take());
        }
    }

    /// The end of the lease as it was granted, whatever has been renewed since.
    pub(crate) fn granted_until(&self) -> Moment {
        self.granted_until
    }

    /// When this process can no longer count on the key.
    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Relaxed))
    }

    pub(crate) fn length(&self) -> Duration {
        self.length
    }

    /// The store confirmed the lease; the request had been sent at `sent_at`.
    pub(crate) fn extended(&self, sent_at: Moment) {
        // Between the end of a lease and the answer to a renewal the key may have been another's, and
        // a late copy of the `begin` may have got it back. The keeper may not have seen the end yet.
        if self.clock.now() >= self.deadline() {
            self.lose();
        }
        self.deadline.fetch_max(sent_at.after(self.length).as_nanos(), Relaxed);
        self.renew_at.store(sent_at.after(self.length / 3).as_nanos(), Relaxed);
    }

    pub(crate) fn lose(&self) {
        if !self.lost.swap(true, Relaxed) {
            self.lost_signal.notify_waiters();
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }

    /// Whether the lease is lost or over by the clock, whether or not the keeper has seen it: a
    /// process that was paused asks before the keeper has run.
    pub(crate) fn is_over(&self) -> bool {
        self.is_lost() || self.clock.now() >= self.deadline()
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Resolves when the lease is lost.
    pub(crate) async fn lost(&self) {
        loop {
            let signal = self.lost_signal.notified();
            if self.is_lost() {
                return;
            }
            signal.await;
        }
    }

    /// When the keeper has to look at this lease again.
    fn look_at(&self) -> Moment {
        let renew_at = Moment::from_nanos(self.renew_at.load(Relaxed));
        match (self.is_lost(), renew_at < self.renew_until) {
            (false, _) => renew_at.min(self.deadline()),
            (true, true) => renew_at,
            (true, false) => Moment::FAR,
        }
    }
}

const SHARDS: usize = shards(16);

/// The attempts that run in this process.
#[derive(Debug)]
pub(crate) struct Leases {
    shards: [CachePadded<Mutex<Vec<Arc<Lease>>>>; SHARDS],
    /// In one order with what else a shutdown looks at: see [`Keeper`](super::keeper::Keeper).
    count: Calls,
    /// When the keeper wakes next. A lease that needs it earlier has to wake it.
    next_look: AtomicU64,
    keeper: Notify,
}

impl Leases {
    pub(crate) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| CachePadded::default()),
            count: Calls::new(),
            next_look: AtomicU64::new(Moment::FAR.as_nanos()),
            keeper: Notify::new(),
        }
    }

    pub(crate) fn insert(&self, lease: &Arc<Lease>) {
        let mut shard = lock(self.shard(lease));
        lease.index.store(shard.len(), Relaxed);
        shard.push(Arc::clone(lease));
        self.count.begin();
        drop(shard);
        if lease.look_at().as_nanos() < self.next_look.load(Relaxed) {
            self.keeper.notify_one();
        }
    }

    pub(crate) fn remove(&self, lease: &Lease) {
        lease.end();
        let mut shard = lock(self.shard(lease));
        let index = lease.index.swap(usize::MAX, Relaxed);
        if index < shard.len() {
            shard.swap_remove(index);
            if let Some(moved) = shard.get(index) {
                moved.index.store(index, Relaxed);
            }
            self.count.end();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.count()
    }

    /// The attempts of this process on `key`. Every attempt is looked at: this is for operators.
    pub(crate) fn of(&self, key: &str) -> Vec<Arc<Lease>> {
        let all = self.shards.iter().flat_map(|shard| lock(shard).clone());
        all.filter(|lease| lease.key.as_str() == key).collect()
    }

    /// Asks the store at once whether the attempts on `key` still hold it.
    pub(crate) fn check(&self, key: &str) {
        for lease in self.of(key) {
            lease.renew_at.store(0, Relaxed);
        }
        self.keeper.notify_one();
    }

    pub(crate) fn wake_keeper(&self) {
        self.keeper.notify_one();
    }

    /// Resolves when a lease needs the keeper earlier than it had planned, or it has to stop.
    pub(crate) async fn keeper_is_needed(&self) {
        self.keeper.notified().await;
    }

    /// What is due now: leases that ran out are marked lost, those to renew are returned.
    ///
    /// From here on until the next look, a lease that needs the keeper earlier than it found out
    /// here, or no later than `at_latest`, wakes it.
    pub(crate) fn look(&self, clock: &Clock, at_latest: Moment) -> Due {
        // While it looks, every new lease wakes it: it may have passed that lease's shard already.
        self.next_look.store(Moment::FAR.as_nanos(), Relaxed);
        let now = clock.now();
        let mut due = Due { sent_at: now, renew: Vec::new(), next: Moment::FAR };
        for shard in &self.shards {
            for lease in lock(shard).iter() {
                if now >= lease.deadline() {
                    lease.lose();
                }
                let renew_at = Moment::from_nanos(lease.renew_at.load(Relaxed));
                if renew_at <= now && now < lease.renew_until {
                    // Until the answer comes, try again after another part of the lease.
                    let again = now.after(lease.length / 6);
                    lease.renew_at.store(again.as_nanos(), Relaxed);
                    due.renew.push(Arc::clone(lease));
                } else if renew_at <= now {
                    // It has run for too long: only its end is left to be seen.
                    lease.renew_at.store(Moment::FAR.as_nanos(), Relaxed);
                }
                due.next = due.next.min(lease.look_at());
            }
        }
        due.next = due.next.min(at_latest);
        self.next_look.store(due.next.as_nanos(), Relaxed);
        due
    }

    fn shard(&self, lease: &Lease) -> &Mutex<Vec<Arc<Lease>>> {
        &self.shards[lease.shard]
    }
}

/// What [`Leases::look`] found.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) sent_at: Moment,
    pub(crate) renew: Vec<Arc<Lease>>,
    pub(crate) next: Moment,
}

impl Due {
    /// What is due, in parts: one that the store does not answer holds up its own part only.
    pub(crate) fn batches(self) -> impl Iterator<Item = Self> {
        const BATCH: usize = 128;
        let Self { sent_at, next, renew } = self;
        let parts: Vec<Vec<_>> = renew.chunks(BATCH).map(<[_]>::to_vec).collect();
        parts.into_iter().map(move |renew| Self { sent_at, renew, next })
    }

    /// When an answer extends none of these leases any more.
    pub(crate) fn worthless_from(&self) -> Moment {
        let longest = self.renew.iter().map(|lease| lease.length).max();
        self.sent_at.after(longest.unwrap_or_default())
    }

    pub(crate) fn requests(&self) -> Vec<(RecordKey, Update)> {
        let request = |lease: &Arc<Lease>| {
            let to = Progress::Renewed { lease: lease.length() };
            (lease.key.clone(), Update { attempt: *lease.attempt(), to })
        };
        self.renew.iter().map(request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Manual;
    use crate::store::{Claim, Token};

    const LEASE: Duration = Duration::from_secs(30);

    struct Bench {
        manual: Arc<Manual>,
        clock: Clock,
        leases: Leases,
    }

    fn bench() -> Bench {
        let manual = Arc::new(Manual::new());
        Bench { clock: Clock::manual(Arc::clone(&manual)), manual, leases: Leases::new() }
    }

    impl Bench {
        fn lease(&self, max_run: Duration) -> Arc<Lease> {
            let claim = Claim::Window { window: LEASE };
            let token = Token::random();
            let attempt = AttemptId { token, number: 1, fence: 1, fingerprint: None, claim };
            let terms = Terms {
                retention: LEASE,
                length: LEASE,
                max_run,
                block_linger: None,
                binding: Binding::Lifted,
                sent_at: self.clock.now(),
                clock: self.clock.clone(),
            };
            let lease = Lease::new("o".into(), RecordKey::from("k"), attempt, &terms, 0, None);
            let lease = Arc::new(lease);
            self.leases.insert(&lease);
            lease
        }
    }

    #[test]
    fn a_lease_is_renewed_after_a_third_of_it() {
        let bench = bench();
        let lease = bench.lease(LEASE * 100);
        let due = bench.leases.look(&bench.clock, Moment::FAR);
        assert!(due.renew.is_empty());
        assert_eq!(due.next.since(bench.clock.now()), LEASE / 3);
        bench.manual.advance(LEASE / 3);
        let due = bench.leases.look(&bench.clock, Moment::FAR);
        assert_eq!(due.renew.len(), 1);
        lease.extended(due.sent_at);
        assert_eq!(lease.deadline().since(bench.clock.now()), LEASE);
    }

    #[test]
    fn an_unanswered_renewal_is_repeated_and_the_lease_then_lost() {
        let bench = bench();
        let lease = bench.lease(LEASE * 100);
        bench.manual.advance(LEASE / 3);
        assert_eq!(bench.leases.look(&bench.clock, Moment::FAR).renew.len(), 1);
        bench.manual.advance(LEASE / 6);
        assert_eq!(bench.leases.look(&bench.clock, Moment::FAR).renew.len(), 1);
        assert!(!lease.is_lost());
        bench.manual.advance(LEASE);
        bench.leases.look(&bench.clock, Moment::FAR);
        assert!(lease.is_lost());
    }

    #[test]
    fn a_renewal_that_is_answered_after_the_end_does_not_bring_the_lease_back() {
        let bench = bench();
        let lease = bench.lease(LEASE * 100);
        bench.manual.advance(LEASE / 3);
        let sent_at = bench.clock.now();
        bench.manual.advance(LEASE - LEASE / 3);
        lease.extended(sent_at);
        assert!(lease.is_lost());
    }

    #[test]
    fn renewing_stops_after_max_run() {
        let bench = bench();
        let lease = bench.lease(LEASE / 2);
        bench.manual.advance(LEASE / 2);
        let due = bench.leases.look(&bench.clock, Moment::FAR);
        assert!(due.renew.is_empty());
        assert_eq!(due.next, lease.deadline());
        bench.manual.advance(LEASE / 2);
        let due = bench.leases.look(&bench.clock, Moment::FAR);
        assert!(lease.is_lost());
        assert_eq!(due.next, Moment::FAR);
    }

    #[test]
    fn removing_one_lease_keeps_the_others_findable() {
        let bench = bench();
        let leases: Vec<_> = (0..100).map(|_| bench.lease(LEASE)).collect();
        for lease in leases.iter().step_by(2) {
            bench.leases.remove(lease);
            bench.leases.remove(lease);
        }
        assert_eq!(bench.leases.count(), 50);
        bench.manual.advance(LEASE / 3);
        assert_eq!(bench.leases.look(&bench.clock, Moment::FAR).renew.len(), 50);
    }
}
