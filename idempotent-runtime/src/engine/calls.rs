//! How many calls are under way, counted without one cache line that all threads write to.

use crate::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::sync::{CachePadded, shards, thread_number};

const STRIPES: usize = shards(16);

/// A count that many threads change and few read.
#[derive(Debug)]
pub(crate) struct Calls([CachePadded<Stripe>; STRIPES]);

#[derive(Debug, Default)]
struct Stripe {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| CachePadded::default()))
    }

    pub(crate) fn begin(&self) {
        self.stripe().begun.fetch_add(1, SeqCst);
    }

    /// On whatever thread, so not always in the stripe that the call began in.
    pub(crate) fn end(&self) {
        self.stripe().ended.fetch_add(1, SeqCst);
    }

    /// How many were under way at one moment while it counted, or more.
    ///
    /// What has ended is read first: a call that begins meanwhile in a stripe that was passed, and
    /// ends in one that was not, must not hide another one.
    pub(crate) fn count(&self) -> usize {
        let sum = |count: fn(&Stripe) -> &AtomicUsize| {
            self.0.iter().fold(0, |sum: usize, stripe| sum.wrapping_add(count(stripe).load(SeqCst)))
        };
        let ended = sum(|stripe| &stripe.ended);
        sum(|stripe| &stripe.begun).wrapping_sub(ended)
    }

    fn stripe(&self) -> &Stripe {
        &self.0[thread_number() % STRIPES]
    }
}
