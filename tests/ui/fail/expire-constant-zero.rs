use idempotent_runtime::{Error, idempotent};

use std::time::Duration;

const TTL: Duration = Duration::ZERO;

#[idempotent(key = "id", expire = TTL)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
