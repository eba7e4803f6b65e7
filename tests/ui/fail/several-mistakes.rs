use idempotent_runtime::{Error, idempotent};

struct Request {
    order_id: u64,
}

#[idempotent(key = "request.order_id", expire = 0, mode = "stong", wiat = 3, name = "")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.order_id)
}

fn main() {}
