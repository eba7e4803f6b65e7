//! The locks and atomics of this crate, which the concurrency checker swaps for its own.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};

/// Locks, also after a panic elsewhere: what the locks of this crate guard is consistent between
/// any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
