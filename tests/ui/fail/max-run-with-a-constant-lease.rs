use std::time::Duration;

use idempotent_runtime::{Error, idempotent};

const LEASE: Duration = Duration::from_secs(60);
const SECONDS: u64 = 60;
const NEVER: Duration = Duration::ZERO;

#[idempotent(key = "id", lease = LEASE, max_run = "30s")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", lease = SECONDS, max_run = LEASE)]
async fn capture(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", max_run = NEVER)]
async fn cancel(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
