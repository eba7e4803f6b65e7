//! The work of a call: an order that is returned by a body and stored as a value.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Retention of every record.
pub const EXPIRE: Duration = Duration::from_secs(3600);

/// The least id. All ids have the same number of digits, so that all keys and values of a run have the same length.
pub const FIRST_ID: u64 = 1_000_000_000_000;

/// Bytes of a value, as JSON, where its size is not what is varied.
pub const VALUE_BYTES: usize = 64;

static IDS: AtomicU64 = AtomicU64::new(FIRST_ID);
static BODIES: AtomicU64 = AtomicU64::new(0);

/// A value that a body returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The id, which is also the key.
    pub id: u64,
    /// Text that brings the value to its size.
    pub item: String,
    /// A number.
    pub cents: u64,
}

/// A body: makes orders of one size.
#[derive(Clone, Debug)]
pub struct Body {
    item: Arc<str>,
}

impl Body {
    /// A body whose values have so many bytes as JSON, or as few as they can.
    pub fn of_size(bytes: usize) -> Self {
        let empty = Order { id: FIRST_ID, item: String::new(), cents: 1299 };
        let item = "x".repeat(bytes.saturating_sub(json(&empty).len()));
        Self { item: item.into() }
    }

    /// Runs the body, and counts that.
    pub fn run(&self, id: u64) -> Order {
        BODIES.fetch_add(1, Relaxed);
        Order { id, item: (*self.item).to_owned(), cents: 1299 }
    }
}

/// Bodies that ran in this process.
pub fn bodies() -> u64 {
    BODIES.load(Relaxed)
}

/// The first of so many ids that were not given out before.
pub fn fresh_ids(count: u64) -> u64 {
    IDS.fetch_add(count, Relaxed)
}

/// The stored form of a value, for subjects that leave that to their caller.
///
/// # Panics
/// Never: an order is always JSON.
pub fn json(order: &Order) -> Vec<u8> {
    serde_json::to_vec(order).expect("an order is JSON")
}

/// The value of its stored form.
///
/// # Panics
/// The bytes are not an order: the subject that stored them is not used as it has to be.
pub fn from_json(bytes: &[u8]) -> Order {
    serde_json::from_slice(bytes).expect("what was stored is an order")
}

/// Asserts that a call was answered with the value of its id.
///
/// # Panics
/// It was not.
pub fn check(order: &Order, id: u64) {
    assert_eq!(order.id, id, "a call was answered with the value of another id");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_size_that_was_asked_for() {
        for size in [64, 1024, 65_536] {
            assert_eq!(json(&Body::of_size(size).run(fresh_ids(1))).len(), size);
        }
    }

    #[test]
    fn values_come_back_equal() {
        let order = Body::of_size(VALUE_BYTES).run(FIRST_ID);
        assert_eq!(from_json(&json(&order)), order);
    }
}
