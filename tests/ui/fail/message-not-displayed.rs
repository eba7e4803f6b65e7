use idempotent_runtime::{Error, idempotent};

struct Item {
    sku: u64,
}

struct Request {
    id: u64,
    items: Vec<Item>,
}

#[idempotent(key = "req.id", message = "order {req.items} exists")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
