use idempotent_runtime::{Error, idempotent};

struct Order {
    id: u64,
}

#[idempotent(key = "order.id", fingerprint)]
async fn create(order: Order) -> Result<u64, Error> {
    Ok(order.id)
}

fn main() {}
