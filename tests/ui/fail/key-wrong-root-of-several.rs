use idempotent_runtime::{Error, idempotent};

struct Request {
    order_id: u64,
    items: Vec<u64>,
    note: Option<String>,
}

#[idempotent(key = "customer.id")]
async fn create(req: Request, user: u64) -> Result<u64, Error> {
    drop((req.items, req.note, user));
    Ok(req.order_id)
}

fn main() {}
