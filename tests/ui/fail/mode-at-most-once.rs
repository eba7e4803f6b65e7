use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "at_most_once")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
