//! Parts that the stores of all databases share.

#[cfg(any(feature = "postgres", feature = "mysql"))]
use idempotent_runtime::store::{Found, Seen, StoreError, StoreErrorKind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time after which the size of the table is asked for again.
pub(crate) const USAGE_EVERY: Duration = Duration::from_secs(60);

#[cfg(any(feature = "postgres", feature = "mysql"))]
/// `true` if the record that was found fulfils the condition that was not fulfilled.
pub(crate) fn still_as_seen(seen: &Seen, found: &Found) -> bool {
    match seen {
        Seen::Nothing => false,
        Seen::This { head, at_most } => {
            let ttl = found.ttl.unwrap_or_default();
            found.head == *head && at_most.is_none_or(|at_most| ttl <= at_most)
        }
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn in_transaction() -> StoreError {
    let text = "a transaction that is still open holds the key";
    StoreError::new(StoreErrorKind::Contended, text)
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn locked() -> StoreError {
    let text = "a transaction that is still open has locked the record";
    StoreError::new(StoreErrorKind::Unavailable, text).without_effect()
}

/// The pause after so many expired records were removed, so that a large batch of old records does
/// not take the server from callers.
pub(crate) fn pace(expired: i64, rate: u32) -> Duration {
    if rate == 0 {
        return Duration::ZERO;
    }
    Duration::from_secs(1) * u32::try_from(expired).unwrap_or(u32::MAX) / rate
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
