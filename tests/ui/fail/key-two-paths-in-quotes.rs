use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
    note: Option<String>,
}

#[idempotent(key = "req.id, req.note?")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
