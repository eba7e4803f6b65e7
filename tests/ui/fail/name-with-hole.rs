use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(key = "req.id", name = "orders.{req.id}")]
async fn create(req: Request) -> Result<u64, Error> {
    let total = req.id;
    Ok(total)
}

fn main() {}
