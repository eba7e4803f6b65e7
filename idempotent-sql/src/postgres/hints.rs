//! Keys whose calls this process has seen answered.
//!
//! A `begin` that finds an answer writes nothing, but the server has set up the write before it knows
//! that: it takes 1.5 to 2 times the processor time of a look. So a key with a hint is looked at first, and
//! a repeat call costs what reading its record costs. A hint that is wrong, because the record was
//! removed elsewhere, costs a round trip and nothing else. A key whose answer has expired is
//! asked for with the statement that writes over its row, in case that is still there.
//!
//! A key without a hint is mostly new. To show the record of one that is not, in the statement that
//! begins, takes the server a tenth longer for every key that is new. So while all of the last keys were
//! new, the record is not asked for; the first one that is not takes a second round trip, and then
//! records are asked for again. Transactions on a pool of sqlx begin with a message that fails unless
//! their key is new, on the same condition.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The number of sets, and of keys in each of them: 16,384 keys are remembered in 128 kB.
const SETS: usize = 4_096;
const WAYS: usize = 4;
/// The number of new keys in a row after which the next one is taken for new as well. If one key in so
/// many is a repeat call of another process, most of these take no second round trip.
const NEW_IN_A_ROW: u32 = 32;

/// The keys that were seen last, by the numbers of their locks. A key shares a set with others, and
/// replaces the one of them that expires first.
///
/// A slot has half of the number, and the second at which the record expires. All accesses are
/// relaxed: a slot is read as a whole, and nothing else depends on it. Two threads that write to a set
/// at once may lose one of their hints.
pub(super) struct Hints {
    sets: Box<[[AtomicU64; WAYS]]>,
    /// The number of keys without a hint that were new since the last one that was not.
    new_in_a_row: AtomicU32,
    start: Instant,
}

/// The memory of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    None,
    /// It had an answer, which can still be there.
    Answered,
    /// It had an answer, whose row can still be there.
    Expired,
}

/// A key that was asked for without a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// It had no record.
    New,
    /// It had a record, or one that has expired, or another caller is beginning with it.
    Known,
}

impl Hints {
    pub(super) fn new() -> Self {
        let sets = (0..SETS).map(|_| Default::default()).collect();
        Self { sets, new_in_a_row: AtomicU32::new(0), start: Instant::now() }
    }

    /// Remembers that the key has an answer, which is kept for so long.
    pub(super) fn remember(&self, lock: i64, life: Duration) {
        let ends = self.start.elapsed().saturating_add(life).as_secs();
        let ends = u64::from(u32::try_from(ends).unwrap_or(u32::MAX));
        let slot = self.slot(lock).or_else(|| self.set(lock).iter().min_by_key(|it| ends_of(it)));
        if let Some(slot) = slot {
            slot.store(number(lock) << 32 | ends, Relaxed);
        }
    }

    pub(super) fn of(&self, lock: i64) -> Hint {
        match self.slot(lock) {
            Some(slot) if ends_of(slot) > self.start.elapsed().as_secs() => Hint::Answered,
            Some(_) => Hint::Expired,
            None => Hint::None,
        }
    }

    /// `true` if a key without a hint is likely to have no record.
    pub(super) fn expect_new(&self) -> bool {
        self.new_in_a_row.load(Relaxed) >= NEW_IN_A_ROW
    }

    /// Takes note of a key without a hint.
    pub(super) fn met(&self, key: Met) {
        match key {
            // Two threads may count one: it takes a moment longer then.
            Met::New if !self.expect_new() => {
                self.new_in_a_row.fetch_add(1, Relaxed);
            }
            Met::New => {}
            Met::Known => self.new_in_a_row.store(0, Relaxed),
        }
    }

    /// Forgets a key that has no answer any more.
    pub(super) fn forget(&self, lock: i64) {
        if let Some(slot) = self.slot(lock) {
            let hint = slot.load(Relaxed);
            // Not the key that has taken its slot.
            if hint >> 32 == number(lock) {
                let _ = slot.compare_exchange(hint, 0, Relaxed, Relaxed);
            }
        }
    }

    fn set(&self, lock: i64) -> &[AtomicU64; WAYS] {
        &self.sets[(lock.cast_unsigned() % SETS as u64) as usize]
    }

    fn slot(&self, lock: i64) -> Option<&AtomicU64> {
        self.set(lock).iter().find(|slot| slot.load(Relaxed) >> 32 == number(lock))
    }
}

fn ends_of(slot: &AtomicU64) -> u64 {
    slot.load(Relaxed) & u64::from(u32::MAX)
}

/// The half of a number that does not choose the set.
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
    const LONG: Duration = Duration::from_secs(3_600);

    /// A key in the same set.
    fn neighbour(number: i64) -> i64 {
        KEY ^ number << 40
    }

    #[test]
    fn a_key_is_expected_until_it_is_forgotten() {
        let hints = Hints::new();
        assert_eq!(hints.of(KEY), Hint::None);
        hints.remember(KEY, LONG);
        assert_eq!((hints.of(KEY), hints.of(neighbour(1))), (Hint::Answered, Hint::None));
        hints.forget(neighbour(1));
        assert_eq!(hints.of(KEY), Hint::Answered, "another key's hint");
        hints.forget(KEY);
        assert_eq!(hints.of(KEY), Hint::None);
    }

    #[test]
    fn a_key_is_taken_for_new_after_many_that_were() {
        let hints = Hints::new();
        for _ in 0..2 {
            for _ in 0..NEW_IN_A_ROW {
                assert!(!hints.expect_new());
                hints.met(Met::New);
            }
            assert!(hints.expect_new());
            hints.met(Met::New);
            assert!(hints.expect_new());
            hints.met(Met::Known);
        }
        assert!(!hints.expect_new());
    }

    #[test]
    fn the_key_that_expires_first_makes_room() {
        let hints = Hints::new();
        for round in 0..2 {
            hints.remember(KEY, LONG);
            for number in 1..WAYS as i64 {
                hints.remember(neighbour(number), LONG * 2);
            }
            assert_eq!(hints.of(KEY), Hint::Answered, "round {round}: a key takes one slot");
        }
        hints.remember(neighbour(WAYS as i64), Duration::MAX);
        assert_eq!(hints.of(KEY), Hint::None);
        assert!((1..=WAYS as i64).all(|number| hints.of(neighbour(number)) == Hint::Answered));
    }

    /// Servers run for months.
    #[test]
    fn keys_are_expected_however_long_the_process_has_run() {
        let mut hints = Hints::new();
        hints.start -= LONG * 24 * 365;
        hints.remember(KEY, LONG);
        assert_eq!(hints.of(KEY), Hint::Answered);
    }

    #[test]
    fn a_record_that_has_expired_is_not_expected() {
        let mut hints = Hints::new();
        hints.remember(KEY, LONG);
        hints.start -= LONG * 2;
        assert_eq!(hints.of(KEY), Hint::Expired);
    }
}
