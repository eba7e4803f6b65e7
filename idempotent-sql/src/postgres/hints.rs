//! Keys whose calls this process has seen answered.
//!
//! A `begin` that finds an answer writes nothing, but the server has set up the write before it knows
//! that: it takes 2.5 times the processor time of a look. So a key with a hint is looked at first, and
//! a repeat call costs what reading its record costs. A hint that is wrong, because the record was
//! removed by somebody else, costs a round trip and nothing else.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The number of keys that are remembered, at most: 64 kB.
const SLOTS: usize = 8_192;

/// The keys that were seen last, by the numbers of their locks. Keys that share a slot replace each
/// other.
///
/// A slot has half of the number, and the second at which the record expires. All accesses are
/// relaxed: a slot is read as a whole, and nothing else depends on it.
pub(super) struct Hints {
    slots: Box<[AtomicU64]>,
    start: Instant,
}

impl Hints {
    pub(super) fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), start: Instant::now() }
    }

    /// Remembers that the key has an answer, which is kept for so long.
    pub(super) fn remember(&self, lock: i64, life: Duration) {
        let ends = self.start.elapsed().saturating_add(life).as_secs();
        let ends = u64::from(u32::try_from(ends).unwrap_or(u32::MAX));
        self.slot(lock).store(number(lock) << 32 | ends, Relaxed);
    }

    /// `true` if the key had an answer when it was last seen that can still be there.
    pub(super) fn expects(&self, lock: i64) -> bool {
        let hint = self.slot(lock).load(Relaxed);
        hint >> 32 == number(lock) && hint & u64::from(u32::MAX) > self.start.elapsed().as_secs()
    }

    /// Forgets a key that has no answer any more.
    pub(super) fn forget(&self, lock: i64) {
        let slot = self.slot(lock);
        let hint = slot.load(Relaxed);
        // Not the key that has taken its slot.
        if hint >> 32 == number(lock) {
            let _ = slot.compare_exchange(hint, 0, Relaxed, Relaxed);
        }
    }

    fn slot(&self, lock: i64) -> &AtomicU64 {
        &self.slots[(lock.cast_unsigned() % SLOTS as u64) as usize]
    }
}

/// The half of a number that does not choose the slot.
fn number(lock: i64) -> u64 {
    lock.cast_unsigned() >> 32
}

impl fmt::Debug for Hints {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hints").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: i64 = -7;
    /// A key in the same slot.
    const NEIGHBOUR: i64 = KEY ^ 1 << 40;
    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_key_is_expected_until_it_is_forgotten_or_replaced() {
        let hints = Hints::new();
        assert!(!hints.expects(KEY));
        hints.remember(KEY, LONG);
        assert!(hints.expects(KEY) && !hints.expects(NEIGHBOUR));
        hints.remember(NEIGHBOUR, Duration::MAX);
        assert!(!hints.expects(KEY) && hints.expects(NEIGHBOUR));
        hints.forget(KEY);
        assert!(hints.expects(NEIGHBOUR), "another key's hint");
        hints.forget(NEIGHBOUR);
        assert!(!hints.expects(NEIGHBOUR));
    }

    /// Servers run for months.
    #[test]
    fn keys_are_expected_however_long_the_process_has_run() {
        let mut hints = Hints::new();
        hints.start -= LONG * 24 * 365;
        hints.remember(KEY, LONG);
        assert!(hints.expects(KEY));
    }

    #[test]
    fn a_record_that_has_expired_is_not_expected() {
        let mut hints = Hints::new();
        hints.remember(KEY, LONG);
        hints.start -= LONG * 2;
        assert!(!hints.expects(KEY));
    }
}
