use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", bind_payload_after_failure = "amount", mode = "strong")]
async fn pay(id: u64, amount: u64) -> Result<u64, Error> {
    Ok(id + amount)
}

fn main() {}
