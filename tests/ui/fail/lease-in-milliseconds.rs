use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", lease = 100000)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", lease = 30000)]
async fn shorter(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
