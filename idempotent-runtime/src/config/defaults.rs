//! Every default and every bound of the configuration, in one place.

use std::time::Duration;

use super::{Abandon, Mode, OnStoreError, OnUnrecorded};

pub(super) const KEY_PREFIX: &str = "idempotent:token:";
pub(super) const EXPIRE: Duration = Duration::from_secs(300);
pub(super) const MODE: Mode = Mode::Reject;
pub(super) const MESSAGE: &str = "this request has already been received";
pub(super) const WAIT: Duration = Duration::from_millis(300);
pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const MAX_RUN: Duration = Duration::from_secs(60 * 60);
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The longest `retry_after` of a caller that finds a key held: most bodies end within it.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);
pub(super) const ABANDON: Abandon = Abandon::Retry;
pub(super) const ON_STORE_ERROR: OnStoreError = OnStoreError::Refuse;
pub(super) const ON_UNRECORDED: OnUnrecorded = OnUnrecorded::Value;
pub(super) const BLOCK_RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);
pub(super) const MAX_VALUE_BYTES: usize = 1024 * 1024;
pub(super) const CLEANUP_INTERVAL: Duration = Duration::from_secs(30);
pub(super) const MAX_CONCURRENT: Option<usize> = None;
pub(super) const LOG_KEYS: bool = false;

/// How many retries `max-retry-count` stands for when only `retry-interval-ms` is given.
pub(super) const MAX_RETRY_COUNT: u32 = 3;

pub(super) const LONGEST_KEY_PREFIX: usize = 255;
/// A shorter lease cannot be renewed before it runs out.
pub(super) const SHORTEST_LEASE: Duration = Duration::from_millis(10);
/// A longer lease would keep the key of a crashed process closed for days.
pub(super) const LONGEST_LEASE: Duration = Duration::from_secs(24 * 60 * 60);
/// About a hundred years: beyond it a duration is a mistake of units.
pub(crate) const LONGEST: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);
/// The largest value that a Redis server takes.
pub(super) const LARGEST_VALUE_BYTES: usize = 512 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_wait_is_retry_count_times_retry_interval() {
        assert_eq!(WAIT, RETRY_INTERVAL * MAX_RETRY_COUNT);
    }
}
