//! A consumer of messages that settles each of them by the answer of its handler.
//!
//! ```text
//! cargo run -p idempotent-recipe-examples --example consumer
//! ```
//!
//! The queue is in the memory of this process. The page about it is `docs/recipes/consumer.md`.
#![allow(clippy::print_stdout)]

use idempotent_queue::memory::MemoryQueue;
use idempotent_queue::{Consumer, ConsumerError, Deliveries, Message};
use idempotent_runtime::{Idempotency, idempotent, retention};
use serde::{Deserialize, Serialize};
use std::sync::Mutex;

#[derive(Deserialize)]
struct Order {
    id: u64,
    item: String,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum OrderError {
    #[error("there is no item `{0}`")]
    NoSuchItem(String),
    #[error("the warehouse does not answer")]
    WarehouseDown,
    #[error(transparent)]
    Refused(#[from] idempotent_runtime::Error),
}

impl OrderError {
    /// A repeat cannot succeed.
    fn is_final(&self) -> bool {
        matches!(self, Self::NoSuchItem(_))
    }
}

#[idempotent(
    name = "orders.reserve",
    key = "order.id",
    fingerprint = "order.item",
    mode = "strong",
    expire = retention::MESSAGES,
    final_errors = OrderError::is_final
)]
async fn on_order(order: Order) -> Result<(), OrderError> {
    WAREHOUSE.reserve(&order)
}

async fn consume(idem: &Idempotency, orders: impl Deliveries) -> Result<(), ConsumerError> {
    Consumer::new(idem, "orders").concurrency(16).max_attempts(5).run(orders, on_order).await
}

static WAREHOUSE: Warehouse = Warehouse(Mutex::new(Vec::new()));

/// Stands for the world outside: it has lamps and chairs, and is down when it is first asked for a
/// chair.
struct Warehouse(Mutex<Vec<u64>>);

impl Warehouse {
    fn reserve(&self, order: &Order) -> Result<(), OrderError> {
        let mut asked = self.0.lock().unwrap();
        let is_first = !asked.contains(&order.id);
        asked.push(order.id);
        match order.item.as_str() {
            "lamp" => Ok(()),
            "chair" if is_first => Err(OrderError::WarehouseDown),
            "chair" => Ok(()),
            item => Err(OrderError::NoSuchItem(item.to_owned())),
        }
    }

    /// Number of times that it was asked for this order.
    fn asked_for(&self, order: u64) -> usize {
        self.0.lock().unwrap().iter().filter(|id| **id == order).count()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let idem = Idempotency::in_memory()?;
    idem.install()?;
    let queue = MemoryQueue::new();
    let delivered = [
        r#"{"id":1,"item":"lamp"}"#,
        r#"{"id":1,"item":"lamp"}"#, // after a lost acknowledgement
        r#"{"id":2,"item":"chair"}"#,
        r#"{"id":3,"item":"unicorn"}"#,
        r#"{"id":"four"}"#,
    ];
    delivered.into_iter().for_each(|payload| queue.send(Message::new(payload)));
    queue.close();
    consume(&idem, queue.deliveries()).await?;

    for message in queue.acknowledged() {
        println!("acknowledged: {}", String::from_utf8_lossy(message.payload()));
    }
    for (message, reason) in queue.dead_letters() {
        let payload = String::from_utf8_lossy(message.payload()).into_owned();
        println!("dead letter:  {payload} ({}: {})", reason.code(), reason.text());
    }
    assert_eq!(queue.acknowledged().len(), 3);
    assert_eq!(queue.dead_letters().len(), 2);
    assert_eq!(WAREHOUSE.asked_for(1), 1, "the repeat is acknowledged, and not handled");
    assert_eq!(WAREHOUSE.asked_for(2), 2, "handled again after an error");
    assert_eq!(WAREHOUSE.asked_for(3), 1, "a final error is not tried again");
    Ok(())
}
