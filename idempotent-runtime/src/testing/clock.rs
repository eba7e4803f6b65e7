//! A clock for tests.

use crate::clock::{Clock, Manual};
use std::sync::Arc;
use std::time::Duration;

/// A clock that stands still until a test moves it. Clones move together.
///
/// ```
/// use idempotent_runtime::testing::ManualClock;
/// use idempotent_runtime::{Error, Idempotency, Mode};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = ManualClock::new();
/// let idem = Idempotency::builder().clock(&clock).build()?;
/// let mail = idem.operation("mail.send").key(7).mode(Mode::Strong);
/// let mail = mail.expire(Duration::from_secs(300));
///
/// let first: Result<u8, Error> = mail.clone().run(async { Ok(1) }).await;
/// clock.advance(Duration::from_secs(299));
/// let replayed: Result<u8, Error> = mail.clone().run(async { Ok(2) }).await;
/// clock.advance(Duration::from_secs(1));
/// let expired: Result<u8, Error> = mail.run(async { Ok(3) }).await;
/// assert_eq!((first?, replayed?, expired?), (1, 1, 3));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Manual>);

impl ManualClock {
    /// Creates a clock that stands still.
    pub fn new() -> Self {
        Self(Arc::new(Manual::new()))
    }

    /// This clock as a [`Clock`]. [`Builder::clock`](crate::instance::Builder::clock) and
    /// [`MemoryOptions::clock`](crate::store::MemoryOptions::clock) take a `&ManualClock` too.
    pub fn clock(&self) -> Clock {
        Clock::manual(Arc::clone(&self.0))
    }

    /// Moves the clock, and wakes the tasks whose sleep is over.
    pub fn advance(&self, by: Duration) {
        self.0.advance(by);
    }
}

impl From<&ManualClock> for Clock {
    fn from(clock: &ManualClock) -> Self {
        clock.clock()
    }
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Self {
        clock.clock()
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Idempotency;
    use crate::store::{MemoryOptions, MemoryStore};

    #[test]
    fn builders_take_it_directly_and_follow_it() {
        let clock = ManualClock::new();
        let store = MemoryStore::with(MemoryOptions::new().clock(&clock));
        let owned = Idempotency::builder().store(store).clock(clock.clone()).build().unwrap();
        let borrowed = Idempotency::builder().clock(&clock).build().unwrap();
        let (before, minute) = ((owned.elapsed(), borrowed.elapsed()), Duration::from_secs(60));
        clock.advance(minute);
        assert_eq!((owned.elapsed(), borrowed.elapsed()), (before.0 + minute, before.1 + minute));
    }
}
