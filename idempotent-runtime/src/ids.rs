//! Key generators for callers: ids without business meaning, made before the call and sent with
//! every repeat of it.
//!
//! Both kinds sort by creation time, and neither needs a store. [`uuid_v7`] needs no coordination
//! at all. [`SortableIds`] fits into 64 bits, but each process needs a node number of its own.
//!
//! ```
//! use idempotent_runtime::ids::{self, SortableIds};
//!
//! let token = ids::uuid_v7();
//! assert_eq!(token.len(), 36);
//!
//! let ids = SortableIds::new(7)?;
//! assert!(ids.next_id() < ids.next_id());
//! # Ok::<(), ids::InvalidNode>(())
//! ```

use std::{
    error::Error,
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Generates a version 7 UUID in its hyphenated form.
///
/// Within a process, each is greater than the one before.
///
/// ```
/// use idempotent_runtime::ids;
///
/// let token = ids::uuid_v7(); // once per request, and sent with every repeat of it
/// assert_eq!(token.len(), 36);
/// ```
pub fn uuid_v7() -> String {
    uuid::Uuid::now_v7().hyphenated().to_string()
}

const NODE_BITS: u32 = 10;
const SEQUENCE_BITS: u32 = 12;
const MILLIS_BITS: u32 = 41;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;
const LARGEST_NODE: u16 = (1 << NODE_BITS) - 1;

/// 2024-01-01 00:00:00 UTC.
const EPOCH: Duration = Duration::from_secs(1_704_067_200);

/// Generator of 64-bit ids that sort by time.
///
/// An id is 41 bits of milliseconds since 2024-01-01 UTC, 10 bits of node, and 12 bits of
/// sequence; the top bit is zero, so that it fits a signed 64-bit column. One generator gives
/// strictly increasing ids to any number of threads, even while the clock goes back, and never
/// waits: more than 4096 ids in a millisecond borrow from the next.
///
/// Two generators with different nodes never give the same id. Two with the same node can, be it in
/// two processes or in one that restarts after its clock went back. Use [`uuid_v7`] if processes
/// cannot have node numbers of their own.
///
/// ```
/// use idempotent_runtime::ids::{InvalidNode, SortableIds};
///
/// let ids = SortableIds::new(7)?; // the number of this process
/// let (first, second) = (ids.next_id(), ids.next_id());
/// assert!(first < second);
/// # Ok::<(), InvalidNode>(())
/// ```
#[derive(Debug)]
pub struct SortableIds {
    node: u64,
    /// Milliseconds and sequence of the last id.
    last: AtomicU64,
    clock: fn() -> u64,
}

impl SortableIds {
    /// Creates a generator for one node, 0 to 1023.
    ///
    /// # Errors
    /// The node does not fit into 10 bits.
    pub fn new(node: u16) -> Result<Self, InvalidNode> {
        Self::with_clock(node, millis_since_epoch)
    }

    fn with_clock(node: u16, clock: fn() -> u64) -> Result<Self, InvalidNode> {
        if node > LARGEST_NODE {
            return Err(InvalidNode(node));
        }
        Ok(Self { node: node.into(), last: AtomicU64::new(0), clock })
    }

    /// Returns the next id, which is greater than all earlier ones.
    ///
    /// # Panics
    /// Panics if the clock is past 2093-09-06, after which the milliseconds no longer fit.
    pub fn next_id(&self) -> u64 {
        let now = (self.clock)().saturating_mul(1 << SEQUENCE_BITS);
        let next = |last: u64| now.max(last + 1);
        // Relaxed suffices: threads share nothing but this atomic, which has one modification
        // order.
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let id = next(last);
            assert!(
                id >> (MILLIS_BITS + SEQUENCE_BITS) == 0,
                "the clock is past the last sortable id"
            );
            match self.last.compare_exchange_weak(last, id, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return self.with_node(id),
                Err(current) => last = current,
            }
        }
    }

    fn with_node(&self, id: u64) -> u64 {
        let (millis, sequence) = (id >> SEQUENCE_BITS, id & SEQUENCE_MASK);
        millis << (NODE_BITS + SEQUENCE_BITS) | self.node << SEQUENCE_BITS | sequence
    }
}

/// Milliseconds since the epoch; zero if the clock is before it.
fn millis_since_epoch() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(EPOCH).as_millis().try_into().unwrap_or(u64::MAX)
}

/// Error of a node number that does not fit into 10 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidNode(u16);

impl fmt::Display for InvalidNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`node` cannot be {}; accepted: 0 to {LARGEST_NODE}", self.0)
    }
}

impl Error for InvalidNode {}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use super::*;

    #[test]
    fn uuids_grow_within_the_process() {
        let made: Vec<String> = (0..10_000).map(|_| uuid_v7()).collect();
        assert!(made.is_sorted_by(|a, b| a < b));
        assert_eq!(made[0].as_bytes()[14], b'7');
    }

    #[test]
    fn ids_are_unique_and_grow_across_threads() {
        let ids = SortableIds::new(5).unwrap();
        let made: Vec<Vec<u64>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..20_000).map(|_| ids.next_id()).collect::<Vec<_>>()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.iter().all(|ids| ids.is_sorted_by(|a, b| a < b)));
        let distinct: HashSet<u64> = made.iter().flatten().copied().collect();
        assert_eq!(distinct.len(), 8 * 20_000);
        let latest = made.iter().flatten().max().unwrap();
        assert!(ids.next_id() > *latest);
    }

    #[test]
    fn an_id_holds_time_node_and_sequence() {
        let ids = SortableIds::with_clock(1023, || 1_000).unwrap();
        assert_eq!(ids.next_id(), 1_000 << 22 | 1023 << 12);
        assert_eq!(ids.next_id(), 1_000 << 22 | 1023 << 12 | 1);
        let before = millis_since_epoch();
        let millis = SortableIds::new(0).unwrap().next_id() >> 22;
        assert!((before..=millis_since_epoch()).contains(&millis));
    }

    #[test]
    fn ids_grow_while_the_clock_goes_back() {
        static NOW: AtomicU64 = AtomicU64::new(5_000);
        let ids = SortableIds::with_clock(1, || NOW.load(Ordering::Relaxed)).unwrap();
        let first = ids.next_id();
        NOW.store(1_000, Ordering::Relaxed);
        let second = ids.next_id();
        NOW.store(0, Ordering::Relaxed);
        let third = ids.next_id();
        NOW.store(5_001, Ordering::Relaxed);
        let fourth = ids.next_id();
        assert!(first < second && second < third && third < fourth);
        assert_eq!(third >> 22, 5_000);
        assert_eq!(fourth >> 22, 5_001);
    }

    #[test]
    fn a_full_millisecond_borrows_from_the_next() {
        let ids = SortableIds::with_clock(1023, || 7).unwrap();
        let made: Vec<u64> = (0..10_000).map(|_| ids.next_id()).collect();
        assert!(made.is_sorted_by(|a, b| a < b));
        assert_eq!(made[4095] >> 22, 7);
        assert_eq!(made[4096] >> 22, 8);
        assert!(made.iter().all(|id| id >> 12 & 1023 == 1023));
    }

    #[test]
    fn a_clock_before_the_epoch_still_gives_ids() {
        let ids = SortableIds::with_clock(0, || 0).unwrap();
        assert_eq!((ids.next_id(), ids.next_id()), (1, 2));
    }

    #[test]
    fn the_last_id_fits_a_signed_integer() {
        let ids = SortableIds::with_clock(1023, || (1 << MILLIS_BITS) - 1).unwrap();
        assert!(i64::try_from(ids.next_id()).is_ok());
    }

    #[test]
    #[should_panic(expected = "the clock is past the last sortable id")]
    fn a_clock_past_the_last_id_is_not_wrapped_around() {
        SortableIds::with_clock(0, || 1 << MILLIS_BITS).unwrap().next_id();
    }

    #[test]
    fn a_node_over_ten_bits_is_refused() {
        let error = SortableIds::new(1024).unwrap_err();
        assert_eq!(error.to_string(), "`node` cannot be 1024; accepted: 0 to 1023");
        assert!(SortableIds::new(1023).is_ok());
    }
}
