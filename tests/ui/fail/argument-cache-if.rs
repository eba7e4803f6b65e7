use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
    amount: u64,
}

#[idempotent(key = "req.id", mode = "strong", cache_if = |total| *total > 0)]
async fn pay(req: Request) -> Result<u64, Error> {
    Ok(req.amount)
}

#[idempotent(key = "req.id", mode = "strong", condition = "#req.amount > 10")]
async fn refund(req: Request) -> Result<u64, Error> {
    Ok(req.amount)
}

#[idempotent(key = "req.id", mode = "strong", unless = "not result")]
async fn total(req: Request) -> Result<Option<u64>, Error> {
    Ok(Some(req.amount))
}

fn main() {}
