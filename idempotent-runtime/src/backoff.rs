//! Exponential backoff with jitter. No other file of this crate computes pauses between tries.

use crate::sync::rng;
use rand::RngExt as _;
use std::time::Duration;

/// The longest pause, in first pauses.
const GROWTH_LIMIT: u32 = 20;

/// Exponential backoff with jitter, up to a limit.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    limit: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration) -> Self {
        Self::up_to(first, first * GROWTH_LIMIT)
    }

    pub(crate) fn up_to(first: Duration, limit: Duration) -> Self {
        Self { next: first, limit: limit.max(first) }
    }

    /// The next pause: between half and all of what it has grown to.
    pub(crate) fn pause(&mut self) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.limit);
        full.mul_f64(rng().random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit_and_are_jittered() {
        let first = Duration::from_millis(10);
        let mut backoff = Backoff::new(first);
        for round in 0..20_u32 {
            let full = (first * 2_u32.pow(round.min(10))).min(first * GROWTH_LIMIT);
            let pause = backoff.pause();
            assert!(pause >= full / 2 && pause <= full, "{pause:?} in round {round}");
        }
    }
}
