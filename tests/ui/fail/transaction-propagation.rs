use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", transaction = "REQUIRES_NEW")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
