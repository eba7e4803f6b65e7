//! Calls whose cost is counted. Keys and values have the same length in each of them.

use idempotent_runtime::store::{MemoryOptions, MemoryStore, RedisStore};
use idempotent_runtime::testing::ManualClock;
use idempotent_runtime::{Error, Idempotency, Mode, idempotent};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::ops::Range;

/// The least id. All have the same number of digits.
pub const FIRST_ID: u64 = 1_000_000_000_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    id: u64,
    item: String,
    cents: u64,
}

/// A value of 64 bytes, as JSON.
fn order(id: u64) -> Order {
    Order { id, item: "a lamp with 64 bytes.".to_owned(), cents: 1299 }
}

#[idempotent(key = "id", expire = 3600, mode = "strong", name = "orders.counted", shared_name, with = idem)]
async fn create(idem: &Idempotency, id: u64) -> Result<Order, Error> {
    Ok(order(id))
}

/// An instance with default settings, and calls on it.
#[derive(Clone, Debug)]
pub struct Orders(Idempotency);

impl Orders {
    pub fn in_memory() -> Self {
        Self(Idempotency::builder().store(MemoryStore::new()).build().unwrap())
    }

    /// In memory, on a clock that stands still: records that expire at different times are listed apart.
    pub fn in_memory_at_one_time() -> Self {
        let clock = ManualClock::new();
        let store = MemoryStore::with(MemoryOptions::new().clock(clock.clock()));
        Self(Idempotency::builder().store(store).clock(clock.clock()).build().unwrap())
    }

    pub async fn on_redis(url: &str) -> Self {
        let store = RedisStore::connect(url).await.unwrap();
        Self(Idempotency::builder().store(store).build().unwrap())
    }

    /// Calls the attributed function: a first execution, or a replay if the id was called before.
    pub async fn call(&self, id: u64) {
        assert_eq!(black_box(create(&self.0, id).await.unwrap()).id, id);
    }

    /// The same for all ids of a range, as one batch.
    pub async fn batch(&self, ids: Range<u64>) {
        let operation = self.0.operation("orders.counted").mode(Mode::Strong);
        let body = |ids: Vec<u64>| async {
            ids.into_iter().map(|id| Ok::<Order, Error>(order(id))).collect()
        };
        let answers = operation.run_batch(ids.clone().map(|id| (id, id)), body).await;
        for (answer, id) in answers.into_iter().zip(ids) {
            assert_eq!(answer.unwrap().value.id, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_64_bytes() {
        assert_eq!(serde_json::to_vec(&order(FIRST_ID)).unwrap().len(), 64);
    }
}
