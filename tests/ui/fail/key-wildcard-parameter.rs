use idempotent_runtime::{Error, idempotent};

struct Request;

#[idempotent(key = "req.order_id")]
async fn create(_: Request) -> Result<u64, Error> {
    Ok(1)
}

fn main() {}
