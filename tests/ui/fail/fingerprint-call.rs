use idempotent_runtime::{Error, idempotent};

#[derive(serde::Serialize)]
struct Order {
    id: u64,
}

#[idempotent(key = "order.id", fingerprint = idempotent_runtime::Fingerprint::of_serialized(&order))]
async fn create(order: Order) -> Result<u64, Error> {
    Ok(order.id)
}

fn main() {}
