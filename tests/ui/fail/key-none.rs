use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(key = None)]
async fn create(req: Request) -> Result<u64, Error> {
    let total = req.id;
    Ok(total)
}

fn main() {}
