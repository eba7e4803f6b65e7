use idempotent_runtime::{Error, idempotent};
use std::time::Duration;

const RETENTION: Duration = Duration::from_secs(300);

#[idempotent(key = "id", mode = "strong", expire_with = RETENTION)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
