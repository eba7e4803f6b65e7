//! Warns of a lease that is over before the store has given up on an answer.
//!
//! A command that is lost is sent again only when the store's timeout has shown that it is lost. A
//! lease that is shorter than that ends first: a call whose `begin` is lost is refused where a
//! repeat would have been granted, and a renewal that is lost costs its attempt the key.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The store's timeout, and whether a warning of a shorter lease was given.
#[derive(Debug)]
pub(crate) struct ShortLeases {
    timeout: Option<Duration>,
    warned: AtomicBool,
}

/// Timeouts that fit into a lease: a renewal is sent after the first third, and if it is lost there
/// is a third for its timeout and one for the repeat.
const TIMEOUTS_PER_LEASE: u32 = 3;

impl ShortLeases {
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        Self { timeout, warned: AtomicBool::new(false) }
    }

    /// Warns of a lease that is shorter than the store's timeout, once per instance.
    pub(crate) fn check(&self, operation: &str, lease: Duration) {
        let Some(timeout) = self.timeout.filter(|timeout| lease < *timeout) else { return };
        // Relaxed: the swap alone decides which caller warns.
        if self.warned.swap(true, Relaxed) {
            return;
        }
        let help = format!(
            "a lease of {:?} or more, or a timeout of {:?} or less",
            timeout.saturating_mul(TIMEOUTS_PER_LEASE),
            lease / TIMEOUTS_PER_LEASE,
        );
        tracing::warn!(
            target: "idempotent", operation, ?lease, ?timeout, help,
            "the lease is shorter than the store's timeout"
        );
    }
}
