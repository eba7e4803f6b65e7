use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(key = "req.id", scope = "tenant")]
async fn create(req: Request, tenant: Option<String>) -> Result<u64, Error> {
    let _ = tenant;
    Ok(req.id)
}

fn main() {}
