use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(key = "req.id", mode = "strong", wait = "1s", maxRetries = 3)]
async fn waits(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "req.id", mode = "reject", maxRetries = 3)]
async fn refuses(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
