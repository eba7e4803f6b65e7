#![deny(warnings)]

use std::sync::atomic::{AtomicU64, Ordering};

use idempotent_runtime::{Error, idempotent};

static RUNS: AtomicU64 = AtomicU64::new(0);

struct CreateOrder {
    order_id: u64,
    amount: u64,
}

#[idempotent(key = "req.order_id", expire = 300, mode = "strong")]
async fn create_order(req: CreateOrder) -> Result<u64, Error> {
    RUNS.fetch_add(1, Ordering::Relaxed);
    Ok(req.amount)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    for amount in [10, 20] {
        let order = create_order(CreateOrder { order_id: 7, amount }).await;
        assert_eq!(order.unwrap(), 10);
    }
    assert_eq!(RUNS.load(Ordering::Relaxed), 1);
}
