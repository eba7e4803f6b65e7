//! Options of the cache of answers in front of a store on the network.

use super::duration;
use super::error::ConfigError;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The number of entries, unless it is set.
const ENTRIES: usize = 10_000;
/// The number of bytes, unless it is set.
const BYTES: usize = 64 * 1024 * 1024;
/// The age, unless it is set.
const AGE: Duration = Duration::from_secs(60);

const MAX_ENTRIES: RangeInclusive<usize> = 1..=16 * 1024 * 1024;
const MAX_BYTES: RangeInclusive<usize> = 64 * 1024..=1 << 40;
const MAX_AGE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60 * 60);

/// The part of the bytes that one answer may take.
const SHARE: usize = 64;

/// A cache of answers in the memory of this process, for
/// [`Builder::replay_cache`](crate::instance::Builder::replay_cache). Off by default.
///
/// A repeat call whose answer is in the cache is answered without the network, as its record would
/// answer it. The cache holds ended records only: successes and final errors, as the bytes that the
/// store holds, so that values that are encrypted there are encrypted here. It is filled by the
/// calls of this process, those that ran a body and those that got an answer from the store.
///
/// # What it weakens
///
/// A record ends before its time if an operator removes it. This process is told, and forgets its
/// entry: at once if it removed the record itself, and otherwise as soon as the store's notification
/// arrives. The cache is used only while such notifications do arrive. It is emptied as soon as their
/// connection is lost, and calls go to the store until the connection is back; a connection that fails
/// silently is detected within seconds. A notification that was never sent, because the process
/// of the operator died before it, leaves an entry in place until it is too old. So does one that was sent before
/// its removal took effect: a `forget` that returned an error may still take effect, so repeat it.
///
/// An answer recorded by a body that ran here expires with its record. An answer that was read back from the store, as it is
/// once it is too old, is dropped after [`max_age`](Self::max_age), or after the `expire` of the call if that is shorter:
/// the store does not say how long the record still lives, so an answer may be replayed for that
/// long after its record has expired. The same goes for records that were removed in
/// the store by other means, such as `DEL` and `FLUSHALL`.
///
/// # Stores
///
/// The store has to [tell of all records](crate::store::Store::tells_all_freed) that operators free. A
/// `RedisStore` on one server or behind sentinels does. One in a cluster, or on a connection of the
/// caller's own, does not, nor do SQL databases: an instance on these refuses to be built. A
/// local store answers from memory anyway, and the cache is ignored.
///
/// # Calls
///
/// Used by calls in strong and reject mode through every door: the attribute, operations by hand,
/// batches, adapters for HTTP and queues, with `detach` and without. Not used in window mode, in
/// transactions, and by effects inside Redis. A call with another payload than the one that the answer
/// is known to be for asks the store.
///
/// ```no_run
/// # #[cfg(feature = "redis")]
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// use idempotent_runtime::store::RedisStore;
/// use idempotent_runtime::{Idempotency, ReplayCache};
/// use std::time::Duration;
///
/// let store = RedisStore::connect("redis://127.0.0.1/").await?;
/// let cache = ReplayCache::new().max_bytes(16 * 1024 * 1024).max_age(Duration::from_secs(10));
/// Idempotency::builder().store(store).replay_cache(cache).build()?.install()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayCache {
    pub(crate) max_entries: usize,
    pub(crate) max_bytes: usize,
    pub(crate) max_age: Duration,
}

impl Default for ReplayCache {
    fn default() -> Self {
        Self { max_entries: ENTRIES, max_bytes: BYTES, max_age: AGE }
    }
}

impl ReplayCache {
    /// A cache of up to 10,000 entries and 64 MiB, none of them older than a minute.
    ///
    /// ```
    /// use idempotent_runtime::ReplayCache;
    ///
    /// assert_eq!(ReplayCache::new(), ReplayCache::default());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of answers that are kept: from 1 to 16,777,216. Beyond it, entries that have not been used
    /// recently are evicted first.
    #[must_use]
    pub fn max_entries(mut self, max_entries: usize) -> Self {
        self.max_entries = max_entries;
        self
    }

    /// Sets the number of bytes that keys and values take, with the cache's own cost per entry: from 64 KiB to 1 TiB.
    /// An answer that takes more than 1/64 of them is not kept.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Sets the time after which an answer is asked for again, counted from when the store was last
    /// asked: from 1 ms to 1 hour.
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age;
        self
    }

    /// The largest entry that is kept.
    pub(crate) fn largest_entry(&self) -> usize {
        self.max_bytes / SHARE
    }

    /// Checks every option.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        within("max_entries", self.max_entries, MAX_ENTRIES)?;
        within("max_bytes", self.max_bytes, MAX_BYTES)?;
        if MAX_AGE.contains(&self.max_age) {
            return Ok(());
        }
        let (from, to) = (duration::display(*MAX_AGE.start()), duration::display(*MAX_AGE.end()));
        let accepted = format!("{from} to {to}");
        Err(ConfigError::refused("max_age", duration::display(self.max_age), accepted))
    }
}

fn within(field: &str, value: usize, range: RangeInclusive<usize>) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    let accepted = format!("{} to {}", range.start(), range.end());
    Err(ConfigError::refused(field, value, accepted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(cache: ReplayCache) -> String {
        cache.validate().unwrap_err().to_string()
    }

    #[test]
    fn every_option_has_bounds() {
        ReplayCache::new().validate().unwrap();
        let cache = ReplayCache::new;
        assert_eq!(
            refusal(cache().max_entries(0)),
            "`max_entries` cannot be 0; accepted: 1 to 16777216"
        );
        assert_eq!(
            refusal(cache().max_bytes(1024)),
            "`max_bytes` cannot be 1024; accepted: 65536 to 1099511627776"
        );
        assert_eq!(
            refusal(cache().max_age(Duration::ZERO)),
            "`max_age` cannot be 0s; accepted: 1ms to 1h"
        );
        assert!(cache().max_age(Duration::from_secs(3601)).validate().is_err());
        assert!(cache().max_entries(usize::MAX).validate().is_err());
        assert!(cache().max_bytes(usize::MAX).validate().is_err());
    }
}
