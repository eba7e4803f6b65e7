use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong", wait = "5 s")]
async fn pay(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
