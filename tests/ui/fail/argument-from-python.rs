use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(event_key_jmespath = "req.id", raise_on_no_idempotency_key = true)]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
