use idempotent_runtime::{Error, idempotent};

const PAYMENT_MODE: &str = "strong";

#[idempotent(key = "id", mode = PAYMENT_MODE)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
