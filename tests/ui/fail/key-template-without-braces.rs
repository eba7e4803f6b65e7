use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "order:id")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "user/id")]
async fn both(user: u64, id: u64) -> Result<u64, Error> {
    Ok(user + id)
}

#[idempotent(key = "order-id")]
async fn dash(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
