use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
    note: Option<String>,
}

#[idempotent(key = "req.id", message = "{req.note.as_deref().unwrap_or_default()} is there")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.note.map_or(req.id, |_| 0))
}

fn main() {}
