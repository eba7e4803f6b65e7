use idempotent_runtime::{Error, idempotent};

type Result<T> = std::result::Result<T, Error>;
type Answer = Result<Order>;

struct Order;

#[idempotent(key = "id", mode = "strong")]
async fn create(id: u64) -> Result<Vec<Order>> {
    Ok(vec![Order])
}

#[idempotent(key = "id", mode = "strong")]
async fn replace(id: u64) -> Answer {
    Ok(Order)
}

fn main() {}
