//! The status of a consumer, which its tasks write, and its health reads.

use super::conditions::{Conditions, Dependency, Phase};
use crate::observe;
use crate::settlement::Pauses;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The status of a consumer.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) name: Arc<str>,
    conditions: watch::Sender<Conditions>,
    in_hand: AtomicUsize,
    settled: [AtomicU64; 4],
    not_settled: AtomicU64,
    last_error: Mutex<Option<(Instant, String)>>,
}

/// The ways to settle a delivery, as the broker sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Ack,
    Again,
    DeadLetter,
    Park,
}

impl Told {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Again => "again",
            Self::DeadLetter => "dead_letter",
            Self::Park => "park",
        }
    }
}

impl Status {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            conditions: watch::Sender::default(),
            in_hand: AtomicUsize::new(0),
            settled: [const { AtomicU64::new(0) }; 4],
            not_settled: AtomicU64::new(0),
            last_error: Mutex::default(),
        }
    }

    pub(crate) fn conditions(&self) -> Conditions {
        *self.conditions.borrow()
    }

    /// The conditions, with their changes from here on.
    pub(super) fn watch(&self) -> watch::Receiver<Conditions> {
        self.conditions.subscribe()
    }

    /// Enters a phase. None is left backwards.
    pub(super) fn enters(&self, phase: Phase) {
        self.change(|conditions| {
            let is_later = conditions.phase < phase;
            conditions.phase = conditions.phase.max(phase);
            is_later
        });
    }

    /// An outage begins, or goes on.
    pub(super) fn fails(&self, dependency: Dependency, pauses: Pauses, error: &impl fmt::Display) {
        self.note(error);
        self.change(|conditions| {
            conditions.outage(dependency).fails(pauses);
            true
        });
    }

    /// An outage is over, if there was one.
    pub(super) fn answers(&self, dependency: Dependency) {
        // Each message says so several times: the lock for changes is for those that change something.
        if !self.conditions().is_out(dependency) {
            return;
        }
        self.change(|conditions| conditions.outage(dependency).ends());
    }

    /// Keeps an error for those who ask for the health.
    pub(super) fn note(&self, error: &impl fmt::Display) {
        *self.last_error() = Some((Instant::now(), error.to_string()));
    }

    fn change(&self, change: impl FnOnce(&mut Conditions) -> bool) {
        self.conditions.send_if_modified(change);
    }

    /// Waits until the consumer drains.
    pub(super) async fn drains(&self) {
        // An error would mean that the sender is gone, which is a field of `self`.
        let _ = self.watch().wait_for(|conditions| conditions.phase >= Phase::Draining).await;
    }

    /// Waits until handlers may start.
    pub(super) async fn may_start(&self) {
        let mut conditions = self.watch();
        loop {
            let until = conditions.borrow_and_update().no_start_before();
            let Some(until) = until else { return };
            tokio::select! {
                () = sleep_until(until) => {}
                _ = conditions.changed() => {}
            }
        }
    }

    /// Counts a delivery that is in hand, until the returned value is dropped.
    pub(super) fn takes(&self) -> InHand<'_> {
        self.in_hand.fetch_add(1, Relaxed);
        InHand { status: self, _gauge: observe::InHand::new(&self.name) }
    }

    /// Counts a settlement.
    pub(super) fn settles(&self, told: Told, is_taken: bool) {
        let count = if is_taken { &self.settled[told as usize] } else { &self.not_settled };
        count.fetch_add(1, Relaxed);
        observe::settles(&self.name, told.as_str(), is_taken);
    }

    pub(crate) fn in_hand(&self) -> usize {
        self.in_hand.load(Relaxed)
    }

    pub(crate) fn settled(&self, told: Told) -> u64 {
        self.settled[told as usize].load(Relaxed)
    }

    pub(crate) fn not_settled(&self) -> u64 {
        self.not_settled.load(Relaxed)
    }

    pub(crate) fn last_error(&self) -> MutexGuard<'_, Option<(Instant, String)>> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A delivery in hand.
#[derive(Debug)]
pub(super) struct InHand<'a> {
    status: &'a Status,
    _gauge: observe::InHand,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.status.in_hand.fetch_sub(1, Relaxed);
    }
}

/// The life of a consumer, which has ended when this is dropped, wherever that is.
#[derive(Debug)]
pub(super) struct Life(pub(super) Arc<Status>);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.enters(Phase::Ended);
    }
}
