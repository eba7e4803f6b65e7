use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(key = headers.get("idempotency-key")?)]
async fn create(req: Request, headers: std::collections::HashMap<String, String>) -> Result<u64, Error> {
    let _ = headers;
    Ok(req.id)
}

fn main() {}
