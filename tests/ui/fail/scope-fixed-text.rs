use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", scope = "billing")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
