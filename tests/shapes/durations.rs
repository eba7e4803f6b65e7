#![deny(warnings)]

use std::time::Duration;

use idempotent_runtime::{Error, idempotent};

mod settings {
    pub(crate) const LEASE: std::time::Duration = std::time::Duration::from_secs(10);
}

#[idempotent(key = "id", expire = Duration::from_secs(5), lease = settings::LEASE, mode = "strong")]
async fn constants(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", expire = "7d", lease = "30s", max_run = "1h", wait = 0)]
async fn texts(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", expire = 1_000, wait = "300ms", mode = "strong")]
async fn numbers(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", expire = (300), lease = "10ms", max_run = "1m30s", mode = "strong")]
async fn shortest_lease(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", expire = "1h30m", lease = "24h", max_run = "24h", mode = "strong")]
async fn longest_lease(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(constants(1).await.unwrap(), 1);
    assert_eq!(texts(1).await.unwrap(), 1);
    assert_eq!(numbers(1).await.unwrap(), 1);
    assert_eq!(shortest_lease(1).await.unwrap(), 1);
    assert_eq!(longest_lease(1).await.unwrap(), 1);
}
