use idempotent_runtime::{Error, idempotent};

#[derive(serde::Deserialize)]
struct Order {
    id: u64,
}

#[idempotent(key = "id", mode = "strong")]
async fn create(id: u64) -> Result<Order, Error> {
    Ok(Order { id })
}

fn main() {}
