//! A store under test, and how time passes for it.

use super::ManualClock;
use crate::key::RecordKey;
use crate::store::{MemoryOptions, MemoryStore, Store, StoreFuture};
use std::sync::Arc;
use std::time::Duration;

/// A store that the [contract suite](super::contract) and the
/// [differential test](super::differential) can examine.
///
/// # Implementing
///
/// [`step`](Subject::step) is what makes a suite about leases and retention run in no time. Records
/// hold no absolute time, so a store that cannot move its clock lowers the time to live of the
/// records by `by`, and removes those that have none left.
///
/// ```
/// use idempotent_runtime::key::RecordKey;
/// use idempotent_runtime::store::{MemoryOptions, MemoryStore, Store, StoreFuture};
/// use idempotent_runtime::testing::{ManualClock, Subject};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// struct Mine { clock: ManualClock, store: Arc<MemoryStore> }
///
/// impl Subject for Mine {
///     fn store(&self) -> Arc<dyn Store> {
///         self.store.clone()
///     }
///
///     fn step<'a>(&'a self, _: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
///         StoreFuture::new(async move { self.clock.advance(by) })
///     }
/// }
/// ```
pub trait Subject: Send + Sync {
    /// The store, the same one every time. It may hold records of others: every case uses keys of
    /// its own.
    fn store(&self) -> Arc<dyn Store>;

    /// Lets `by` pass for the records of `keys`; it may pass for others too.
    fn step<'a>(&'a self, keys: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()>;

    /// The time that may pass by itself while one case runs. Zero if the clock stands still between
    /// steps; at most [`MAX_SLACK`].
    fn slack(&self) -> Duration {
        Duration::ZERO
    }

    /// `true` if its watches wake at all. A store whose [`watch`](Store::watch) is the provided one
    /// says no.
    fn wakes(&self) -> bool {
        true
    }

    /// `true` if it can list its records. A store whose [`scan`](Store::scan) is the provided one
    /// says no, and must then refuse.
    fn scans(&self) -> bool {
        true
    }

    /// A store with room for few records, which answers `Full` beyond. `None`: not examined.
    fn bounded(&self) -> Option<Arc<dyn Store>> {
        None
    }
}

/// The longest [`Subject::slack`] with which the cases still tell before from after.
pub const MAX_SLACK: Duration = Duration::from_secs(8);

/// The embedded memory store on a clock of its own, as a [`Subject`].
#[derive(Clone, Debug)]
pub struct MemorySubject {
    clock: ManualClock,
    store: Arc<dyn Store>,
}

impl MemorySubject {
    /// A fresh memory store.
    pub fn new() -> Self {
        Self::wrapped(|store| store)
    }

    /// A fresh memory store inside another one.
    ///
    /// ```
    /// use idempotent_runtime::testing::{FaultStore, MemorySubject};
    ///
    /// let subject = MemorySubject::wrapped(FaultStore::new);
    /// ```
    pub fn wrapped<S: Store>(wrap: impl FnOnce(MemoryStore) -> S) -> Self {
        let clock = ManualClock::new();
        let store = wrap(MemoryStore::with(MemoryOptions::new().clock(clock.clock())));
        Self { clock, store: Arc::new(store) }
    }
}

impl Default for MemorySubject {
    fn default() -> Self {
        Self::new()
    }
}

impl Subject for MemorySubject {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    fn step<'a>(&'a self, _: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
        self.clock.advance(by);
        StoreFuture::ready(())
    }

    fn bounded(&self) -> Option<Arc<dyn Store>> {
        let options = MemoryOptions::new().clock(self.clock.clock());
        Some(Arc::new(MemoryStore::with(options.max_entries(16).max_bytes(16 * 1024))))
    }
}
