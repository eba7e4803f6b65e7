use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", acks_late = true)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
