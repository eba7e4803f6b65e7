use idempotent_runtime::{Error, idempotent};

#[derive(serde::Serialize, serde::Deserialize)]
struct Page<T> {
    items: T,
}

struct Order;

#[idempotent(key = "id", mode = "strong")]
async fn list(id: u64) -> Result<Page<Vec<Order>>, Error> {
    Ok(Page { items: vec![Order] })
}

fn main() {}
