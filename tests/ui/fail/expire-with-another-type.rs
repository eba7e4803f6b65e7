use idempotent_runtime::{Error, idempotent};

fn retention(_: &u64) -> u64 {
    300
}

#[idempotent(key = "id", mode = "strong", expire_with = retention)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
