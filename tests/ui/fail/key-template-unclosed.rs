use idempotent_runtime::{Error, idempotent};

struct Request {
    user: String,
    order_id: u64,
}

#[idempotent(key = "user:{req.user:order:{req.order_id}")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.order_id)
}

fn main() {}
