use idempotent_runtime::{Error, idempotent};

use std::time::Duration;

const TTL: Duration = Duration::from_secs(5);

#[idempotent(key = "id", expire = const TTL)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
