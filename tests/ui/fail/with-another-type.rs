use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", with = other)]
async fn create(id: u64, other: String) -> Result<u64, Error> {
    drop(other);
    Ok(id)
}

fn main() {}
