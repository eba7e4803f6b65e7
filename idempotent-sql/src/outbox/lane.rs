//! Lanes: the messages of one destination and key, as a number.
//!
//! The number is stored with each message. Processes of different versions must compute the same
//! one, or two of them would not see each other's messages as a sequence. Two keys that share a
//! number by chance share a sequence, and nothing else.

use super::Identifier;
use sha2::{Digest as _, Sha256};

/// The number of a destination and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Lane(pub(super) i64);

impl Lane {
    pub(super) fn of(destination: &str, key: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"idempotent outbox\0");
        // The length tells `a`, `bc` from `ab`, `c`.
        hash.update((destination.len() as u64).to_be_bytes());
        hash.update(destination);
        hash.update(key);
        // Every lane is above `BEFORE_ALL`.
        Self(first_number(&hash.finalize()).max(i64::MIN + 1))
    }

    /// Smaller than every lane.
    pub(super) const BEFORE_ALL: Self = Self(i64::MIN);

    /// The advisory lock that transactions hold which send to this lane of this table.
    pub(super) fn advisory_lock(self, table: Identifier) -> i64 {
        let mut hash = Sha256::new();
        hash.update(b"idempotent outbox lock\0");
        hash.update(self.0.to_be_bytes());
        hash.update(table.as_str());
        first_number(&hash.finalize())
    }

    /// The row of the table of locks that stands for this lane, where there are no advisory locks.
    pub(super) fn lock_row(self) -> i64 {
        self.0.rem_euclid(LOCK_ROWS)
    }
}

/// The number of rows in a table of locks. Lanes that share a row wait for each other.
pub(super) const LOCK_ROWS: i64 = 4_096;

fn first_number(hash: &[u8]) -> i64 {
    let (first, _) = hash.split_first_chunk().unwrap_or((&[0; 8], &[]));
    i64::from_be_bytes(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_what_they_are() {
        assert_eq!(Lane::of("orders", "17"), Lane(-6_053_900_061_579_237_288));
        assert_ne!(Lane::of("a", "bc"), Lane::of("ab", "c"));
    }

    #[test]
    fn lock_rows_are_within_the_table() {
        for number in [i64::MIN, -1, 0, 1, i64::MAX] {
            assert!((0..LOCK_ROWS).contains(&Lane(number).lock_row()), "{number}");
        }
    }

    #[test]
    fn tables_have_locks_of_their_own() {
        let lane = Lane::of("orders", "17");
        let (one, other) = (Identifier::new("one"), Identifier::new("other"));
        assert_ne!(lane.advisory_lock(one), lane.advisory_lock(other));
    }
}
