//! A payload that cannot be decoded from JSON.

use idempotent_queue::Consumer;
use idempotent_queue::memory::MemoryQueue;
use idempotent_runtime::{Error, Idempotency, idempotent};

struct Order {
    id: u64,
}

#[idempotent(key = "order.id")]
async fn on_order(order: Order) -> Result<u64, Error> {
    Ok(order.id)
}

async fn consume(idem: &Idempotency, queue: &MemoryQueue) {
    Consumer::new(idem, "orders").run(queue.deliveries(), on_order).await.unwrap();
}

fn main() {}
