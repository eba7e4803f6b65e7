use idempotent_runtime::{Error, idempotent};

struct Request {
    order_id: u64,
    items: Vec<u64>,
    note: Option<String>,
}

#[idempotent(key = "nightly")]
async fn create(req: Request) -> Result<u64, Error> {
    drop((req.items, req.note));
    Ok(req.order_id)
}

fn main() {}
