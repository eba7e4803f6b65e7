use idempotent_runtime::{Error, idempotent};

struct Request {
    user: u64,
    amount: f64,
}

#[idempotent(key = (req.user, req.amount))]
async fn pay(req: Request) -> Result<u64, Error> {
    Ok(req.user)
}

fn main() {}
