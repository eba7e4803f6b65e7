use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "window", wait = 3)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
