//! The crate's own clock, which tests can move.
//!
//! Leases, waits and the expiry of the memory store all read it; nothing else does.

use crate::sync::{Mutex, lock};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where time comes from: the system, or a test.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Manual(Arc<Manual>),
}

/// A moment on a [`Clock`]: the time since its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) const FAR: Self = Self(u64::MAX);

    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) fn as_nanos(self) -> u64 {
        self.0
    }

    pub(crate) fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long from `earlier` to here; zero if it is not earlier.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Clock {
    /// The system's monotonic clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    #[cfg_attr(not(any(test, feature = "testing")), allow(dead_code))]
    pub(crate) fn manual(manual: Arc<Manual>) -> Self {
        Self(Source::Manual(manual))
    }

    pub(crate) fn now(&self) -> Moment {
        match &self.0 {
            Source::System => Moment(nanos(origin().elapsed())),
            Source::Manual(manual) => lock(&manual.state).now,
        }
    }

    /// Wall time in microseconds since 1970, the seed of fences.
    pub(crate) fn unix_micros(&self) -> u64 {
        match &self.0 {
            Source::System => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX)),
            Source::Manual(manual) => MANUAL_EPOCH_MICROS + lock(&manual.state).now.0 / 1_000,
        }
    }

    /// Resolves at `moment`. System timers run on `timers`, not on the runtime that polls.
    pub(crate) fn sleep_until(&self, moment: Moment, timers: &tokio::runtime::Handle) -> Sleep {
        match &self.0 {
            Source::System => {
                let _entered = timers.enter();
                let left = moment.since(self.now());
                Sleep(Timer::System(Box::pin(tokio::time::sleep(left))))
            }
            Source::Manual(manual) => Sleep(Timer::Manual(Arc::clone(manual), moment)),
        }
    }
}

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    // One hour back, so that moments before the first call can be told apart from the origin.
    *ORIGIN.get_or_init(|| Instant::now().checked_sub(Duration::from_secs(3600)).unwrap_or_else(Instant::now))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

const MANUAL_EPOCH_MICROS: u64 = 1_700_000_000_000_000;

/// The state of a clock that moves only when told to.
#[derive(Debug)]
pub(crate) struct Manual {
    state: Mutex<ManualState>,
}

struct ManualState {
    now: Moment,
    sleepers: Vec<(Moment, Waker)>,
}

impl fmt::Debug for ManualState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ManualState").field("now", &self.now).finish_non_exhaustive()
    }
}

#[cfg_attr(not(any(test, feature = "testing")), allow(dead_code))]
impl Manual {
    pub(crate) fn new() -> Self {
        let now = Moment(nanos(Duration::from_secs(3600)));
        Self { state: Mutex::new(ManualState { now, sleepers: Vec::new() }) }
    }

    /// Moves the clock and wakes whoever slept until then.
    pub(crate) fn advance(&self, by: Duration) {
        let mut state = lock(&self.state);
        state.now = state.now.after(by);
        let now = state.now;
        let (due, later) = state.sleepers.drain(..).partition(|(until, _)| *until <= now);
        state.sleepers = later;
        drop(state);
        let due: Vec<(Moment, Waker)> = due;
        for (_, waker) in due {
            waker.wake();
        }
    }
}

/// A future that resolves at a moment of its clock.
#[derive(Debug)]
pub(crate) struct Sleep(Timer);

#[derive(Debug)]
enum Timer {
    System(Pin<Box<tokio::time::Sleep>>),
    Manual(Arc<Manual>, Moment),
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Timer::System(sleep) => sleep.as_mut().poll(context),
            Timer::Manual(manual, until) => {
                let mut state = lock(&manual.state);
                if state.now >= *until {
                    return Poll::Ready(());
                }
                let waker = context.waker();
                if !state.sleepers.iter().any(|(at, known)| at == until && known.will_wake(waker)) {
                    state.sleepers.push((*until, waker.clone()));
                }
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let manual = Arc::new(Manual::new());
        let clock = Clock::manual(Arc::clone(&manual));
        let before = clock.now();
        assert_eq!(clock.now(), before);
        manual.advance(Duration::from_millis(5));
        assert_eq!(clock.now().since(before), Duration::from_millis(5));
    }

    #[tokio::test]
    async fn sleepers_wake_when_the_clock_reaches_them() {
        let manual = Arc::new(Manual::new());
        let clock = Clock::manual(Arc::clone(&manual));
        let until = clock.now().after(Duration::from_secs(10));
        let sleep = clock.sleep_until(until, &tokio::runtime::Handle::current());
        let sleeper = tokio::spawn(sleep);
        tokio::task::yield_now().await;
        manual.advance(Duration::from_secs(9));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        manual.advance(Duration::from_secs(1));
        sleeper.await.unwrap();
    }
}
