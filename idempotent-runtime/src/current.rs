//! The attempt that the running body belongs to.

use crate::engine::Lease;
use crate::key::RecordKey;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    static CURRENT: Current;
}

/// The attempt that this task runs for, inside the body of an idempotent function.
///
/// It does not cross `tokio::spawn` by itself: clone it and [`enter`](Current::enter) it there.
///
/// ```
/// use idempotent_runtime::{Error, current, idempotent};
///
/// #[idempotent(key = "account", mode = "strong")]
/// async fn debit(account: u64) -> Result<u64, Error> {
///     // Hand the fence to whatever must refuse a writer that was paused too long.
///     Ok(current().map_or(0, |attempt| attempt.fence()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// assert!(debit(7).await? > 0);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Current(Arc<Lease>);

/// The attempt that this task runs for, if any.
pub fn current() -> Option<Current> {
    CURRENT.try_with(Current::clone).ok()
}

/// Whether an attempt of this task, or one around it, holds `key` of `instance`.
pub(crate) fn holds(instance: usize, key: &RecordKey) -> bool {
    CURRENT.try_with(|current| current.holds(instance, key)).unwrap_or(false)
}

impl Current {
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        Self(lease)
    }

    /// The record's key, as the store holds it.
    pub fn key(&self) -> &str {
        self.0.key.as_str()
    }

    /// 1 for the first attempt, 2 for the next.
    pub fn attempt(&self) -> u32 {
        self.0.attempt().number
    }

    /// Greater than the fence of every earlier attempt, for as long as the record is kept.
    pub fn fence(&self) -> u64 {
        self.0.attempt().fence
    }

    /// Whether the lease is lost: another attempt may be running.
    pub fn is_lost(&self) -> bool {
        self.0.is_over()
    }

    /// Resolves when the lease is lost. A body that can stop then, should.
    pub async fn lost(&self) {
        self.0.lost().await;
    }

    /// Runs `future` with this attempt in place, in another task of the same body.
    pub async fn enter<F: Future>(self, future: F) -> F::Output {
        self.scope(future).await
    }

    pub(crate) fn scope<F: Future>(self, future: F) -> TaskLocalFuture<Self, F> {
        CURRENT.scope(self, future)
    }

    fn holds(&self, instance: usize, key: &RecordKey) -> bool {
        let mut chain = self.chain();
        chain.any(|lease| lease.instance == instance && lease.key == *key && !lease.has_ended())
    }

    /// This attempt and those around it, from the inside out.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &Lease> {
        std::iter::successors(Some(self), |current| current.0.parent.as_ref())
            .map(|current| &*current.0)
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Current")
            .field("key", &self.0.key)
            .field("attempt", &self.attempt())
            .field("fence", &self.fence())
            .field("lost", &self.is_lost())
            .finish()
    }
}
