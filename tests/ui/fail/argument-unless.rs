use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", unless = "result == 0")]
async fn status(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", skipIf = is_empty)]
async fn condition(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
