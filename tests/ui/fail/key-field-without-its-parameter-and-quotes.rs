use idempotent_runtime::{Error, idempotent};

struct Request {
    order_id: u64,
}

// The compiler proposes this for `key = "req.oder_id"`.
#[idempotent(key = order_id)]
async fn create(req: Request, user: u64) -> Result<u64, Error> {
    Ok(req.order_id + user)
}

fn main() {}
