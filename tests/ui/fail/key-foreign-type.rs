use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
    from: std::path::PathBuf,
}

#[idempotent(key = "req.from")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
