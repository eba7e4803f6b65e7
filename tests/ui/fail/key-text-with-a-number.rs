use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", scope = "tenant-1")]
async fn pay(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
