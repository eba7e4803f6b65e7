use idempotent_runtime::{Error, idempotent};

struct Request {
    amount: f64,
}

#[idempotent(key = "{req.amount}:x")]
async fn create(req: Request) -> Result<bool, Error> {
    Ok(req.amount > 1.0)
}

fn main() {}
