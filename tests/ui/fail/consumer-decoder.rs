//! A value that is no decoder.

use idempotent_queue::Consumer;
use idempotent_queue::memory::MemoryQueue;
use idempotent_runtime::{Error, Idempotency, idempotent};

#[idempotent(key = "order")]
async fn on_order(order: u64) -> Result<u64, Error> {
    Ok(order)
}

async fn consume(idem: &Idempotency, queue: &MemoryQueue) {
    let consumer = Consumer::new(idem, "orders").decoder("json");
    consumer.run(queue.deliveries(), on_order).await.unwrap();
}

fn main() {}
