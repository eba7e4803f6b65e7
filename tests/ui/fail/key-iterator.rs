use idempotent_runtime::{Error, idempotent};

struct Request {
    items: Vec<u64>,
}

#[idempotent(key = req.items.iter())]
async fn create(req: Request) -> Result<usize, Error> {
    Ok(req.items.len())
}

fn main() {}
