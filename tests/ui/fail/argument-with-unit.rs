use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong", wait_ms = 500)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
