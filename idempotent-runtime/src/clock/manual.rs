//! Manual clock for tests.

use super::{Moment, nanos};
use crate::sync::{Mutex, lock};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(super) const EPOCH_MICROS: u64 = 1_700_000_000_000_000;

/// State of a manual clock, which moves only when it is advanced.
#[derive(Debug)]
pub(crate) struct Manual {
    state: Mutex<State>,
}

struct State {
    now: Moment,
    sleepers: Vec<(Moment, Waker)>,
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("State").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Manual {
    pub(crate) fn new() -> Self {
        let now = Moment(nanos(Duration::from_secs(3600)));
        Self { state: Mutex::new(State { now, sleepers: Vec::new() }) }
    }

    /// Advances the clock and wakes the sleepers that are due.
    pub(crate) fn advance(&self, by: Duration) {
        let mut state = lock(&self.state);
        state.now = state.now.after(by);
        let now = state.now;
        let (due, later): (Vec<_>, Vec<_>) =
            state.sleepers.drain(..).partition(|(until, _)| *until <= now);
        state.sleepers = later;
        drop(state);
        for (_, waker) in due {
            waker.wake();
        }
    }

    pub(super) fn now(&self) -> Moment {
        lock(&self.state).now
    }

    pub(super) fn sleep_until(self: &Arc<Self>, until: Moment) -> Asleep {
        Asleep { clock: Arc::clone(self), until }
    }
}

/// Future that resolves when the clock has reached `until`.
#[derive(Debug)]
pub(super) struct Asleep {
    clock: Arc<Manual>,
    until: Moment,
}

impl Future for Asleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.clock.state);
        if state.now >= self.until {
            return Poll::Ready(());
        }
        let (until, waker) = (self.until, context.waker());
        if !state.sleepers.iter().any(|(at, known)| *at == until && known.will_wake(waker)) {
            state.sleepers.push((until, waker.clone()));
        }
        Poll::Pending
    }
}
