use idempotent_runtime::{Error, idempotent};

struct Order {
    id: u64,
}

#[idempotent(key = "order.id", mode = "reject", message = "order {order_id} exists")]
async fn ship(order: Order) -> Result<u64, Error> {
    Ok(order.id)
}

fn main() {}
