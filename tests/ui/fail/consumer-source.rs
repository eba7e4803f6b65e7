//! A queue in place of its deliveries.

use idempotent_queue::Consumer;
use idempotent_queue::memory::MemoryQueue;
use idempotent_runtime::{Error, Idempotency, idempotent};

#[idempotent(key = "order")]
async fn on_order(order: u64) -> Result<u64, Error> {
    Ok(order)
}

async fn consume(idem: &Idempotency, queue: MemoryQueue) {
    Consumer::new(idem, "orders").run(queue, on_order).await.unwrap();
}

fn main() {}
