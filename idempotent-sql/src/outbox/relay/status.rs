//! Counts of a relay.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of a relay since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayStatus {
    /// Messages that the broker has confirmed.
    pub published: u64,
    /// Deliveries that the broker refused, or during which the publisher panicked.
    pub refused: u64,
    /// Deliveries that were not confirmed in time.
    pub timed_out: u64,
    /// Deliveries for which the broker could not be reached.
    pub unavailable: u64,
    /// Messages that became dead letters.
    pub dead: u64,
    /// Messages that were confirmed and could not be deleted. They are sent again.
    pub unsettled: u64,
    /// Statements that the database refused or did not answer.
    pub database_errors: u64,
    /// Keys that are being worked on.
    pub keys_in_progress: u64,
    /// The last error of the broker or of the database.
    pub last_error: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) published: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) unavailable: AtomicU64,
    pub(super) dead: AtomicU64,
    pub(super) unsettled: AtomicU64,
    pub(super) database_errors: AtomicU64,
    pub(super) keys_in_progress: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Counters {
    pub(super) fn note(&self, error: String) {
        *self.last_error.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error);
    }

    pub(super) fn status(&self) -> RelayStatus {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let last_error = self.last_error.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        RelayStatus {
            published: read(&self.published),
            refused: read(&self.refused),
            timed_out: read(&self.timed_out),
            unavailable: read(&self.unavailable),
            dead: read(&self.dead),
            unsettled: read(&self.unsettled),
            database_errors: read(&self.database_errors),
            keys_in_progress: read(&self.keys_in_progress),
            last_error: last_error.clone(),
        }
    }
}

/// Adds to a counter. No other value depends on it.
pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
