use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(key = "req.id", expire = ttl)]
async fn create(req: Request, ttl: std::time::Duration) -> Result<u64, Error> {
    let _ = ttl;
    Ok(req.id)
}

fn main() {}
