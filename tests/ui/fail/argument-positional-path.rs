use idempotent_runtime::{Error, idempotent};

struct Request {
    order_id: u64,
}

#[idempotent(req.order_id)]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.order_id)
}

fn main() {}
