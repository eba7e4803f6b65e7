//! The clocks of the machine, which all processes on a file share.
//!
//! A record has two ends. `expires_at` is a time of the wall clock, which goes on when the machine
//! is off. `lease_until` is a time of the boot clock, which nobody can set, and stands beside the id
//! of the boot that it belongs to. The store computes the life of a record from both, in the
//! statement that reads or compares it:
//!
//! | record | life |
//! | --- | --- |
//! | `Processing`, of this boot, `lease_until` is to come | the rest of the lease, and the linger |
//! | `Processing` otherwise: the lease is over | what is left to `expires_at`, at most the linger |
//! | any other | what is left to `expires_at` |
//!
//! A lease is the part of a life that exceeds the linger. So
//!
//! * a lease lasts exactly as long as it was granted or renewed for, whatever happens to the wall
//!   clock, time during which the machine slept included;
//! * a lease of another boot is over: its holder did not survive;
//! * a wall clock that is set back makes records live longer, and leases not: the second row of the
//!   table has no lease, however far away `expires_at` is;
//! * a wall clock that is set forward makes records expire early, except those with a lease that is
//!   alive.
//!
//! The boot clock and the id of the boot are those of Linux. On other systems, and where the id cannot
//! be read, leases count on the wall clock too, and one that is set back makes a lease last longer.

use crate::client::Param;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment on both clocks, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// Unix time.
    pub wall: i64,
    /// Time since the machine was started, sleep included.
    pub boot: i64,
    /// Identifies the start of the machine.
    pub boot_id: Arc<str>,
}

impl Now {
    /// The parameters that statements end with.
    pub(crate) fn params(&self) -> [Param<'_>; 3] {
        [self.wall.into(), self.boot.into(), Param::from(&*self.boot_id)]
    }
}

/// The clocks, or what a test puts in their place.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> Now + Send + Sync>);

impl Clock {
    /// The clocks of the machine.
    pub(crate) fn of_machine() -> Self {
        let boot_id = system::boot_id();
        let has_boot_clock = boot_id.is_some();
        let boot_id: Arc<str> = boot_id.unwrap_or_else(|| "wall clock".to_owned()).into();
        Self(Arc::new(move || {
            let wall = wall();
            let boot = if has_boot_clock { system::boot_clock() } else { wall };
            Now { wall, boot, boot_id: Arc::clone(&boot_id) }
        }))
    }

    pub(crate) fn new(now: impl Fn() -> Now + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Now {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Clock").field(&self.now()).finish()
    }
}

fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use rustix::time::{ClockId, clock_gettime};

    /// `None` if the system keeps it to itself: without it, the boot clock, which starts again with
    /// each boot, is of no use.
    pub(super) fn boot_id() -> Option<String> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned()).filter(|id| !id.is_empty())
    }

    pub(super) fn boot_clock() -> i64 {
        let now = clock_gettime(ClockId::Boottime);
        now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    pub(super) fn boot_id() -> Option<String> {
        None
    }

    pub(super) fn boot_clock() -> i64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_of_the_machine_move_on_within_one_boot() {
        let clock = Clock::of_machine();
        let (before, after) = (clock.now(), clock.now());
        assert_eq!(before.boot_id, after.boot_id);
        assert!(after.boot >= before.boot);
        assert!(before.wall > 1_700_000_000_000_000);
        if cfg!(target_os = "linux") {
            assert!(!before.boot_id.is_empty());
            assert_ne!(before.boot, before.wall);
        }
    }
}
