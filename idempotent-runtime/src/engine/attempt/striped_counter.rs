//! A counter without one cache line that all threads write to.

use crate::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::sync::{CachePadded, shards, thread_number};

const STRIPES: usize = shards(16);

/// A counter that many threads change and few read.
///
/// `SeqCst` throughout: a shutdown stores its flag and then reads counters, and a call increments a
/// counter and then reads the flag. With anything weaker each could miss the other.
#[derive(Debug)]
pub(crate) struct StripedCounter([CachePadded<Stripe>; STRIPES]);

/// Two counters that only grow. The difference of one stripe alone means nothing.
#[derive(Debug, Default)]
struct Stripe {
    increments: AtomicUsize,
    decrements: AtomicUsize,
}

impl StripedCounter {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| CachePadded::default()))
    }

    pub(crate) fn increment(&self) {
        self.stripe().increments.fetch_add(1, SeqCst);
    }

    /// Takes one off, in the stripe of the calling thread: not always the one that was incremented.
    pub(crate) fn decrement(&self) {
        self.stripe().decrements.fetch_add(1, SeqCst);
    }

    /// The count at one moment while it was read, or more.
    ///
    /// Decrements are read first: a call that begins meanwhile in a stripe that was passed, and ends
    /// in one that was not, must not hide another one.
    pub(crate) fn get(&self) -> usize {
        let sum = |count: fn(&Stripe) -> &AtomicUsize| {
            self.0.iter().fold(0, |sum: usize, stripe| sum.wrapping_add(count(stripe).load(SeqCst)))
        };
        let decrements = sum(|stripe| &stripe.decrements);
        sum(|stripe| &stripe.increments).wrapping_sub(decrements)
    }

    fn stripe(&self) -> &Stripe {
        &self.0[thread_number() % STRIPES]
    }
}
