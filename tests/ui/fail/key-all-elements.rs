use idempotent_runtime::{Error, idempotent};

struct Item {
    sku: String,
}

struct Request {
    id: u64,
    items: Vec<Item>,
    tags: Vec<String>,
}

#[idempotent(key = "req.items[*].sku")]
async fn quoted(req: Request) -> Result<usize, Error> {
    Ok(req.items.iter().map(|item| item.sku.len()).sum())
}

#[idempotent(key = (req.id, req.items[..].sku))]
async fn tuple(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "order:{req.tags[*]}")]
async fn whole(req: Request) -> Result<usize, Error> {
    Ok(req.tags.len())
}

#[idempotent(key = items[*].sku)]
async fn parameter(items: Vec<Item>) -> Result<usize, Error> {
    Ok(items.len())
}

fn main() {}
