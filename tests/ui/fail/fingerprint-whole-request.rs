use idempotent_runtime::{Error, idempotent};

struct Order {
    id: u64,
    amount: f64,
}

#[idempotent(key = "order.id", fingerprint = "order")]
async fn pay(order: Order) -> Result<u64, Error> {
    Ok(order.id)
}

fn main() {}
