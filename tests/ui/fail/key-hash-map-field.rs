use idempotent_runtime::{Error, idempotent};

struct Request {
    tags: std::collections::HashMap<String, u64>,
}

#[idempotent(key = (req.tags))]
async fn create(req: Request) -> Result<usize, Error> {
    Ok(req.tags.len())
}

fn main() {}
