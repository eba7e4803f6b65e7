use idempotent_runtime::{Error, idempotent};

struct Order {
    id: u64,
}

#[idempotent(key = "id", mode = "strong")]
async fn create(id: u64) -> Result<Order, Error> {
    let order = Order { id };
    drop(order.id);
    Ok(order)
}

fn main() {}
