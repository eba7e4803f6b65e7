use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
    user: String,
}

#[idempotent(key = "req.user:req.id")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
