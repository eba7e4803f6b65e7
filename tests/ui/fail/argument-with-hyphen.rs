use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", max-run = "2h")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
