//! Wakes the followers of a flight: when it changes, and when their wait is over.
//!
//! There may be thousands, who are all woken when the flight lands. Followers whose waits end within the same millisecond share
//! a timer, so that there are few to be set and to be cancelled.

use crate::clock::{Moment, Sleep};
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::sync::{Notified, Notify};
use std::collections::BTreeMap;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use tokio::task::unconstrained;

/// Wakes followers whose waits end together.
#[derive(Debug)]
pub(super) struct Alarm {
    /// The end of their wait, in whole milliseconds.
    until: Moment,
    woken: Notify,
    has_rung: AtomicBool,
}

impl Alarm {
    /// Resolves after the next change, and when the wait is over. To be called before the flight is read, and before
    /// [`has_rung`](Self::has_rung), so that nothing in between is missed.
    pub(super) fn woken(&self) -> Notified<'_> {
        self.woken.notified()
    }

    /// `true` if the wait is over.
    pub(super) fn has_rung(&self) -> bool {
        self.has_rung.load(Acquire)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.has_rung.store(true, Release);
        self.woken.notify_waiters();
    }
}

/// The alarms of a flight.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    /// By the end of the wait.
    groups: BTreeMap<Moment, Group>,
}

#[derive(Debug)]
struct Group {
    followers: usize,
    alarm: Arc<Alarm>,
    /// Cancelled when it is dropped. `None` if the wait has no end.
    _timer: Option<Sleep>,
}

impl Alarms {
    /// A follower waits until `deadline`. It has to [`leave`](Self::leave), unless the alarms are taken.
    pub(super) fn join(
        &mut self,
        deadline: Moment,
        sleep_until: impl FnOnce(Moment) -> Sleep,
    ) -> Arc<Alarm> {
        let until = deadline.up_to_millis();
        let group = self.groups.entry(until).or_insert_with(|| Group::new(until, sleep_until));
        group.followers += 1;
        Arc::clone(&group.alarm)
    }

    pub(super) fn leave(&mut self, alarm: &Alarm) {
        if let Some(group) = self.groups.get_mut(&alarm.until) {
            group.followers -= 1;
            if group.followers == 0 {
                self.groups.remove(&alarm.until);
            }
        }
    }

    /// Those who are to be woken. Not by this, which is behind the lock of the flight.
    pub(super) fn all(&self) -> Vec<Arc<Alarm>> {
        self.groups.values().map(|group| Arc::clone(&group.alarm)).collect()
    }
}

/// Wakes everybody: the flight has changed.
pub(super) fn wake(alarms: &[Arc<Alarm>]) {
    alarms.iter().for_each(|alarm| alarm.woken.notify_waiters());
}

impl Group {
    fn new(until: Moment, sleep_until: impl FnOnce(Moment) -> Sleep) -> Self {
        let (woken, has_rung) = (Notify::new(), AtomicBool::new(false));
        let alarm = Arc::new(Alarm { until, woken, has_rung });
        let timer = (until < Moment::FAR).then(|| {
            let mut timer = sleep_until(until);
            let waker = Waker::from(Arc::clone(&alarm));
            // Outside of the budget of the caller's task: when that is used up, whoever polls is woken at once.
            let mut polled = unconstrained(&mut timer);
            if Pin::new(&mut polled).poll(&mut Context::from_waker(&waker)).is_ready() {
                waker.wake();
            }
            timer
        });
        Self { followers: 0, alarm, _timer: timer }
    }
}
