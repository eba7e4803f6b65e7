use idempotent_runtime::{Error, idempotent};

struct Request {
    order_id: u64,
    item: String,
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Order {
    id: u64,
    item: String,
}

#[idempotent(key = "result.id", mode = "strong")]
async fn create(req: Request) -> Result<Order, Error> {
    Ok(Order { item: req.item, id: req.order_id })
}

#[idempotent(key = "output.order", mode = "strong")]
async fn cancel(req: Request) -> Result<u64, Error> {
    drop(req.item);
    Ok(req.order_id)
}

#[idempotent(key = "#result.total", mode = "strong")]
async fn refund(req: Request) -> Result<String, Error> {
    Ok(req.item)
}

fn main() {}
