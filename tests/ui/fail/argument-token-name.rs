use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(tokenName = "Idempotency-Key", allowParam = true)]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
