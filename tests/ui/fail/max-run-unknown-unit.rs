use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", max_run = "1w")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
