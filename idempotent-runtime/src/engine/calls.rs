//! How many calls are under way, counted without one cache line that all threads write to.

use crate::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::sync::shards;

const STRIPES: usize = shards(16);

/// A count that many threads change and few read.
#[derive(Debug)]
pub(crate) struct Calls([Stripe; STRIPES]);

#[derive(Debug)]
#[repr(align(128))]
struct Stripe(AtomicUsize);

impl Calls {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Stripe(AtomicUsize::new(0))))
    }

    pub(crate) fn begin(&self) {
        self.stripe().fetch_add(1, SeqCst);
    }

    /// On whatever thread: one stripe may fall below zero, their sum does not.
    pub(crate) fn end(&self) {
        self.stripe().fetch_sub(1, SeqCst);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().fold(0, |sum, Stripe(count)| sum.wrapping_add(count.load(SeqCst)))
    }

    fn stripe(&self) -> &AtomicUsize {
        thread_local! {
            static INDEX: usize = {
                static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
                NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
            };
        }
        &self.0[INDEX.with(|index| index % STRIPES)].0
    }
}
