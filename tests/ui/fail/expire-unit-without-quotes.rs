use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", expire = 5m)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
