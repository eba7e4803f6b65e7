use idempotent_runtime::{Error, idempotent};

struct Request {
    user: String,
    order_id: u64,
}

fn retention(req: &Request) -> std::time::Duration {
    std::time::Duration::from_secs(req.order_id)
}

#[idempotent(key = "req.order_id", mode = "strong", expire_with = retention)]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.order_id)
}

fn main() {}
