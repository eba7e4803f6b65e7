//! The state that a source shares with its thread and its deliveries.

use super::assignment::{Assignment, Claim, Revoked, Taken};
use super::record::Record;
use crate::QueueError;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Lock order: `commits` before `assignment`; no other two are held together. Only `commits` is held in calls of
/// librdkafka, which may call back: callbacks run in the thread that polls, and that one takes it nowhere else.
#[derive(Debug)]
pub(super) struct Shared {
    assignment: Mutex<Assignment>,
    /// Held from the look at what is settled until it is committed. Otherwise a commit could go out for a partition
    /// that was revoked meanwhile, and set back its next owner.
    commits: Mutex<()>,
    report: Mutex<Report>,
    /// Wakes the source: there is something to take, or to report.
    arrived: Notify,
    pub(super) poller: Wake,
    pub(super) committer: Wake,
}

/// The errors of the thread, for the source.
#[derive(Debug, Default)]
struct Report {
    error: Option<QueueError>,
    has_ended: bool,
}

/// The next thing for the source.
#[derive(Debug)]
pub(super) enum Next {
    Record(Box<Record>),
    Failed(QueueError),
    /// The thread is gone.
    Ended,
    /// Nothing before this time, or the next [arrival](Shared::arrival).
    Wait(Option<Instant>),
}

impl Shared {
    pub(super) fn new(assignment: Assignment) -> Self {
        Self {
            assignment: Mutex::new(assignment),
            commits: Mutex::default(),
            report: Mutex::default(),
            arrived: Notify::new(),
            poller: Wake::default(),
            committer: Wake::default(),
        }
    }

    pub(super) fn assignment(&self) -> MutexGuard<'_, Assignment> {
        self.assignment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No commit goes out, except by the holder.
    pub(super) fn commits(&self) -> MutexGuard<'_, ()> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn next(&self) -> Next {
        {
            let mut report = self.report();
            match report.error.take() {
                Some(error) => return Next::Failed(error),
                None if report.has_ended => return Next::Ended,
                None => {}
            }
        }
        match self.assignment().take(Instant::now()) {
            Taken::Record(record) => Next::Record(record),
            Taken::NotBefore(due) => Next::Wait(Some(due)),
            Taken::Nothing => Next::Wait(None),
        }
    }

    /// Waits until there may be something. One that comes before the wait ends it at once.
    pub(super) async fn arrival(&self) {
        self.arrived.notified().await;
    }

    /// Tells the source that there may be something.
    pub(super) fn arrive(&self) {
        self.arrived.notify_one();
    }

    pub(super) fn owns(&self, claim: &Claim) -> Result<(), Revoked> {
        self.assignment().owns(claim)
    }

    /// Settles a message whose delivery has ended.
    pub(super) fn settle(&self, claim: &Claim) -> Result<(), Revoked> {
        let settled = {
            let mut assignment = self.assignment();
            assignment.put_down();
            assignment.settle(claim)
        };
        self.poller.wake();
        self.committer.wake();
        settled
    }

    /// Delivers a message again whose delivery has ended.
    pub(super) fn deliver_again(&self, mut record: Record, after: Duration) -> Result<(), Revoked> {
        record.delivered_again();
        let now = Instant::now();
        let held = {
            let mut assignment = self.assignment();
            assignment.put_down();
            assignment.hold(record, now.checked_add(after).unwrap_or(now))
        };
        self.arrive();
        self.poller.wake();
        held
    }

    pub(super) fn fail(&self, error: QueueError) {
        self.report().error = Some(error);
        self.arrive();
    }

    /// The thread is gone, and with it every partition: nothing can be settled.
    pub(super) fn end(&self) {
        self.assignment().revoke_all();
        self.report().has_ended = true;
        self.arrive();
    }
}

/// Wakes a thread. A signal that comes before the wait ends it at once.
#[derive(Debug, Default)]
pub(super) struct Wake {
    signals: Mutex<Signals>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Signals {
    is_awake: bool,
    is_stopped: bool,
}

impl Wake {
    pub(super) fn wake(&self) {
        self.signals().is_awake = true;
        self.changed.notify_one();
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.signals().is_stopped = true;
        self.wake();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.signals().is_stopped
    }

    /// Waits for a signal, but no longer than this.
    pub(super) fn wait(&self, at_most: Duration) {
        let signals = self.signals();
        let waited = self.changed.wait_timeout_while(signals, at_most, |signals| !signals.is_awake);
        let (mut signals, _) = waited.unwrap_or_else(PoisonError::into_inner);
        signals.is_awake = false;
    }

    /// Waits, whatever the signals, unless the thread is to end.
    pub(super) fn pause(&self, for_so_long: Duration) {
        let signals = self.signals();
        drop(self.changed.wait_timeout_while(signals, for_so_long, |signals| !signals.is_stopped));
    }

    fn signals(&self) -> MutexGuard<'_, Signals> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
