//! The clock of leases, waits and the expiry of the memory store. Tests can replace it with one
//! that they advance by hand.

#[cfg(any(test, feature = "testing"))]
mod manual;

#[cfg(any(test, feature = "testing"))]
pub(crate) use manual::Manual;

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Source of time: the system's monotonic clock, or a clock that a test controls.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    #[cfg(any(test, feature = "testing"))]
    Manual(std::sync::Arc<Manual>),
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
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// The next whole millisecond, or this moment if it is one.
    pub(crate) fn up_to_millis(self) -> Self {
        self.0.checked_next_multiple_of(1_000_000).map_or(Self::FAR, Self)
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Clock {
    /// The system's monotonic clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn manual(manual: std::sync::Arc<Manual>) -> Self {
        Self(Source::Manual(manual))
    }

    pub(crate) fn now(&self) -> Moment {
        match &self.0 {
            Source::System => {
                STANDS_AT.get().unwrap_or_else(|| Moment(nanos(origin().instant.elapsed())))
            }
            #[cfg(any(test, feature = "testing"))]
            Source::Manual(manual) => manual.now(),
        }
    }

    /// Calls a local store at `moment`, which was read on this clock just before: a store on the same clock takes it for
    /// the time, and does not read it again. `work` must not wait.
    pub(crate) fn standing_at<R>(&self, moment: Moment, work: impl FnOnce() -> R) -> R {
        /// Lets time go on, also after a panic.
        struct GoesOn;
        impl Drop for GoesOn {
            fn drop(&mut self) {
                STANDS_AT.set(None);
            }
        }
        match &self.0 {
            Source::System => {
                STANDS_AT.set(Some(moment));
                let _goes_on = GoesOn;
                work()
            }
            #[cfg(any(test, feature = "testing"))]
            Source::Manual(_) => work(),
        }
    }

    /// Wall time at `moment` in microseconds since 1970, the seed of fences.
    ///
    /// The wall clock is read once per process, and the monotonic clock counts from there, so that
    /// fences do not go back when the system time is set back.
    pub(crate) fn unix_micros(&self, moment: Moment) -> u64 {
        let base = match &self.0 {
            Source::System => origin().unix_micros,
            #[cfg(any(test, feature = "testing"))]
            Source::Manual(_) => manual::EPOCH_MICROS,
        };
        base + moment.0 / 1_000
    }

    /// Resolves at `moment`. System timers run on `timers`, not on the runtime that polls.
    pub(crate) fn sleep_until(&self, moment: Moment, timers: &tokio::runtime::Handle) -> Sleep {
        match &self.0 {
            Source::System => {
                let _entered = timers.enter();
                let at = origin().instant.checked_add(Duration::from_nanos(moment.0));
                Sleep(Timer::System(Box::pin(match at {
                    Some(at) => tokio::time::sleep_until(at.into()),
                    None => tokio::time::sleep(Duration::MAX),
                })))
            }
            #[cfg(any(test, feature = "testing"))]
            Source::Manual(manual) => Sleep(Timer::Manual(manual.sleep_until(moment))),
        }
    }
}

thread_local! {
    /// The time on the system's clock while a local store is asked in this thread.
    static STANDS_AT: Cell<Option<Moment>> = const { Cell::new(None) };
}

/// Wall and monotonic time of the first use of the clock in this process.
struct Origin {
    instant: Instant,
    unix_micros: u64,
}

fn origin() -> &'static Origin {
    static ORIGIN: OnceLock<Origin> = OnceLock::new();
    ORIGIN.get_or_init(|| Origin {
        instant: Instant::now(),
        unix_micros: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX / 2)),
    })
}

fn nanos(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(1_000_000_000);
    whole.saturating_add(duration.subsec_nanos().into())
}

/// A future that resolves at a moment of its clock.
#[derive(Debug)]
pub(crate) struct Sleep(Timer);

#[derive(Debug)]
enum Timer {
    System(Pin<Box<tokio::time::Sleep>>),
    #[cfg(any(test, feature = "testing"))]
    Manual(manual::Asleep),
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Timer::System(sleep) => sleep.as_mut().poll(context),
            #[cfg(any(test, feature = "testing"))]
            Timer::Manual(asleep) => Pin::new(asleep).poll(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let manual = Arc::new(Manual::new());
        let clock = Clock::manual(Arc::clone(&manual));
        let before = clock.now();
        assert_eq!(clock.now(), before);
        manual.advance(Duration::from_millis(5));
        assert_eq!(clock.now().since(before), Duration::from_millis(5));
    }

    #[test]
    fn the_clock_stands_for_one_call_and_goes_on_after_a_panic() {
        let clock = Clock::system();
        let before = clock.now();
        let other = Clock::system();
        assert_eq!(clock.standing_at(before, || other.now()), before);
        assert!(clock.now() > before);
        let panicked = std::panic::catch_unwind(|| clock.standing_at(before, || panic!("store")));
        assert!(panicked.is_err());
        assert!(clock.now() > before);
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
