use idempotent_runtime::{Error, idempotent};

struct Request {
    item: Result<u64, String>,
}

#[idempotent(key = "req.item")]
async fn create(req: Request) -> Result<bool, Error> {
    Ok(req.item.is_ok())
}

fn main() {}
