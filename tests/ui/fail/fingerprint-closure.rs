use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", fingerprint = |amount| amount / 100)]
async fn pay(id: u64, amount: u64) -> Result<u64, Error> {
    Ok(id + amount)
}

fn main() {}
