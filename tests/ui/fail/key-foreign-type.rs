use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
    at: std::time::SystemTime,
}

#[idempotent(key = "req.at")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
