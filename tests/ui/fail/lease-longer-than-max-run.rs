use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(key = "req.id", lease = "2h", max_run = "1m")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
