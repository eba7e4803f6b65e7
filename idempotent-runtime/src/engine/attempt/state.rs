//! The state of an attempt that runs in this process: its lease, its permit, and whether its key
//! blocks.
//!
//! A lease is counted on the monotonic clock from before its token was first sent, so the holder
//! always believes it ends earlier than the store does.
//!
//! # Fractions of a lease
//! - A lease is renewed after a third of it. If that message is lost, there is a third for the
//!   store's timeout to show it and a third for the repeat.
//! - A renewal that is not answered is sent again after a sixth, so that three more fit into the two
//!   thirds that are left.
//! - A grant whose answer took more than half of the lease is renewed before its body starts: the
//!   first renewal by the keeper would be due, or late.
//!
//! # Orderings
//! All atomics here are `Relaxed`. Each is a fact by itself: nothing else is published through it,
//! and who reads an old value acts as it would have acted a moment earlier. Signals that must not be
//! missed go through `Notify`, which is armed before the flag is read. The store decides in the end:
//! every verb carries the token of its attempt.

use super::admission::Permit;
use crate::clock::{Clock, Moment};
use crate::key::RecordKey;
use crate::operation_name::OperationName;
use crate::protocol::{Binding, Progress, Update};
use crate::store::AttemptId;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use crate::sync::{Mutex, Notify, lock, thread_number};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// One attempt of this process, shared by its guard, the registry, the keeper and the body.
#[derive(Debug)]
pub(crate) struct AttemptState {
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
    /// The retention of its answer.
    pub(crate) retention: Duration,
    /// The payload that may follow if this attempt ends without an answer, unless the body says otherwise.
    binding: Binding,
    /// The body has said that any payload may follow.
    is_unbound: AtomicBool,
    /// A call in the body was refused in a way that a retry can change.
    call_refused: AtomicBool,
    /// The identity of the instance that granted it.
    pub(crate) instance: usize,
    /// Its transaction keeps every other attempt of the instance waiting.
    pub(super) locks_store: bool,
    /// The attempt inside whose body this one was begun.
    pub(crate) parent: Option<Arc<AttemptState>>,
    /// The permit of its body, which calls inside the body share. Not set without a limit, and
    /// empty when the body has ended, so that a `Current` that is kept does not keep the permit.
    permit: OnceLock<Mutex<Option<Arc<Permit>>>>,
    pub(super) length: Duration,
    granted_until: Moment,
    /// Renewing stops here, so that a hung body does not hold its key for ever.
    pub(super) renew_until: Moment,
    deadline: AtomicU64,
    pub(super) renew_at: AtomicU64,
    lost: AtomicBool,
    /// The loss is reported.
    loss_taken: AtomicBool,
    lost_signal: Notify,
    /// The attempt has ended; the key is no longer held by it.
    ended: AtomicBool,
    clock: Clock,
    /// The number of the thread it was begun on, which chooses its shard of the registry.
    pub(super) thread: usize,
    /// Its index in that shard. Only changed under the lock of the shard.
    pub(super) index: AtomicUsize,
}

/// The part of a lease after which it is renewed.
const RENEW_AFTER: u32 = 3;

/// The part of a lease after which a renewal that was not answered is sent again.
pub(super) const RENEW_AGAIN_AFTER: u32 = 6;

/// The terms under which an attempt is granted.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) retention: Duration,
    pub(crate) length: Duration,
    pub(crate) max_run: Duration,
    /// The linger of a key that blocks; `None` if it does not.
    pub(crate) block_linger: Option<Duration>,
    /// The payload that may follow an attempt that ends without an answer.
    pub(crate) binding: Binding,
    /// See [`OpenTransaction::locks_store`](crate::protocol::OpenTransaction::locks_store).
    pub(crate) locks_store: bool,
    /// The moment at which the token was first sent, on this clock.
    pub(crate) sent_at: Moment,
    pub(crate) clock: Clock,
}

impl AttemptState {
    // Inlined, so that it is made where it is copied from into its `Arc`: it is large.
    #[inline(always)]
    pub(crate) fn new(
        operation: OperationName,
        key: RecordKey,
        attempt: AttemptId,
        terms: &Terms,
        instance: usize,
        parent: Option<Arc<AttemptState>>,
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
            is_unbound: AtomicBool::new(false),
            call_refused: AtomicBool::new(false),
            instance,
            locks_store: terms.locks_store,
            parent,
            permit: OnceLock::new(),
            length: terms.length,
            granted_until: terms.sent_at.after(terms.length),
            renew_until: terms.sent_at.after(terms.max_run),
            deadline: AtomicU64::new(terms.sent_at.after(terms.length).as_nanos()),
            renew_at: AtomicU64::new(terms.sent_at.after(terms.length / RENEW_AFTER).as_nanos()),
            lost: AtomicBool::new(false),
            loss_taken: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            clock: terms.clock.clone(),
            lost_signal: Notify::new(),
            thread: thread_number(),
            index: AtomicUsize::new(usize::MAX),
        }
    }

    /// The payload that may follow if this attempt ends without an answer.
    pub(crate) fn binding(&self) -> Binding {
        if self.is_unbound.load(Relaxed) { Binding::Lifted } else { self.binding }
    }

    /// Lets any payload follow if this attempt ends without an answer.
    pub(crate) fn unbind(&self) {
        self.is_unbound.store(true, Relaxed);
    }

    /// A call in the body was refused in a way that a retry can change.
    pub(crate) fn call_was_refused(&self) {
        self.call_refused.store(true, Relaxed);
    }

    /// `true` if the error of the body may be due to the refusal of a call in it.
    pub(crate) fn is_call_refused(&self) -> bool {
        self.call_refused.load(Relaxed)
    }

    /// The attempt as its record has it.
    pub(crate) fn id(&self) -> &AttemptId {
        match &self.blocking {
            Some(blocking) if self.armed.load(Relaxed) => blocking,
            _ => &self.granted,
        }
    }

    /// The attempt as its record may have it at most: armed, if that was asked for.
    pub(crate) fn longest_id(&self) -> &AttemptId {
        match &self.blocking {
            Some(blocking) if self.may_block() => blocking,
            _ => &self.granted,
        }
    }

    /// `true` if the key has to be armed before the body starts.
    pub(super) fn is_to_be_armed(&self) -> bool {
        self.blocking.is_some()
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

    /// `true` if the key may be armed, so that it could block although its body never started.
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

    /// The moment from which this process can no longer count on the key.
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
        self.renew_at.store(sent_at.after(self.length / RENEW_AFTER).as_nanos(), Relaxed);
    }

    pub(crate) fn lose(&self) {
        if !self.lost.swap(true, Relaxed) {
            self.lost_signal.notify_waiters();
        }
    }

    /// Takes the loss of the lease, to report it. `true` once, and only if the lease is lost.
    pub(super) fn take_loss(&self) -> bool {
        self.is_lost() && !self.loss_taken.swap(true, Relaxed)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }

    /// `true` if the lease is lost or over by the clock, even if the keeper has not seen it: a
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
            // Armed before the flag is read, so that a loss in between is not missed.
            let signal = self.lost_signal.notified();
            if self.is_lost() {
                return;
            }
            signal.await;
        }
    }

    /// The moment at which the keeper has to look at this attempt again.
    pub(super) fn look_at(&self) -> Moment {
        let renew_at = Moment::from_nanos(self.renew_at.load(Relaxed));
        match (self.is_lost(), renew_at < self.renew_until) {
            (false, _) => renew_at.min(self.deadline()),
            (true, true) => renew_at,
            (true, false) => Moment::FAR,
        }
    }
    /// This attempt and the enclosing ones, from the inside out.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |state| state.parent.as_deref())
    }
}
