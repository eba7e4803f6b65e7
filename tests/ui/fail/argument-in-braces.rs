use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent({ key = "req.id", expire = 300 })]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
