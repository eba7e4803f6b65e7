use idempotent_runtime::{Error, idempotent};

struct Request {
    user: String,
    order_id: u64,
}

#[idempotent(key = "order_key")]
async fn create(req: Request) -> Result<String, Error> {
    let order_key = format!("{}:{}", req.user, req.order_id);
    Ok(order_key)
}

fn main() {}
