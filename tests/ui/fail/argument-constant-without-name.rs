use idempotent_runtime::{Error, idempotent};

#[idempotent(idempotent_runtime::retention::PAYMENTS, key = "id", mode = "strong")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
