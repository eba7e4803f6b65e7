use idempotent_runtime::{Error, idempotent};

struct Request {
    request_id: String,
    order_id: u64,
}

#[idempotent(key = "req.request_id", mode = "strong")]
#[idempotent(key = "req.order_id", mode = "strong")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.order_id)
}

fn main() {}
