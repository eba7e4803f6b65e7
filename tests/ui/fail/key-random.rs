use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(key = uuid::Uuid::new_v4())]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
