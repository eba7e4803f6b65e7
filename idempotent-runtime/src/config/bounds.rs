//! Bounds of settings, and defaults that are not settings.

use std::time::Duration;

pub(super) const LONGEST_KEY_PREFIX: usize = 255;
/// The unit of durations, in which stores count.
pub(super) const TICK: Duration = Duration::from_millis(1);
/// The shortest lease. A shorter one could not be renewed before it runs out.
pub(super) const SHORTEST_LEASE: Duration = Duration::from_millis(10);
/// The longest lease. A longer one would block the key of a crashed process for days.
pub(super) const LONGEST_LEASE: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest duration, about a hundred years. A longer one is a mistake of units.
pub(crate) const LONGEST: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);
/// The largest value that a Redis server takes.
pub(super) const LARGEST_VALUE_BYTES: usize = 512 * 1024 * 1024;

/// The longest `retry_after` of a caller that finds a key held. Most bodies end within it.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The value of `max-retry-count` if only `retry-interval-ms` is given.
pub(super) const MAX_RETRY_COUNT: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn default_wait_is_retry_count_times_retry_interval() {
        let Config { wait, retry_interval, .. } = Config::default();
        assert_eq!(wait, retry_interval * MAX_RETRY_COUNT);
    }
}
