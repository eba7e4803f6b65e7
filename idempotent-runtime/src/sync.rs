//! Locks, atomics, notifications, tasks and random numbers of this crate, which the concurrency
//! checker replaces with its own.

#[cfg_attr(not(shuttle), path = "sync/native.rs")]
#[cfg_attr(shuttle, path = "sync/checked.rs")]
mod platform;

#[cfg(all(test, shuttle))]
pub(crate) use platform::check;
pub(crate) use platform::{
    Mutex, MutexGuard, Notified, Notify, OnceLock, OwnedNotified, RandomState, atomic, rng,
    run_on_thread, spawn_on, thread_number,
};
use std::ops::Deref;

/// A value on cache lines of its own, to avoid false sharing.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Locks a mutex and ignores poisoning: the data behind the locks of this crate is consistent
/// between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Number of shards: few under the checker, for which every lock is a scheduling point.
pub(crate) const fn shards(usual: usize) -> usize {
    if cfg!(shuttle) { 2 } else { usual }
}
