use idempotent_runtime::{Error, idempotent};

const SHORT: std::time::Duration = std::time::Duration::from_millis(5);

struct Request {
    id: u64,
}

#[idempotent(key = "req.id", lease = SHORT)]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
