use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", lease = "1m", max_run = 45)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", lease = 500, max_run = "10s")]
async fn cancel(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
