use idempotent_runtime::{Error, idempotent};

async fn charge(id: u64) -> Result<u64, Error> {
    Ok(id)
}

async fn handle(id: u64) -> Result<u64, Error> {
    #[idempotent(key = "id")]
    let receipt = charge(id).await?;
    Ok(receipt)
}

fn main() {}
