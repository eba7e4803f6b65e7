use std::sync::LazyLock;
use std::time::Duration;

use idempotent_runtime::{Error, idempotent};

static RETENTION: LazyLock<Duration> = LazyLock::new(|| Duration::from_secs(600));

#[idempotent(key = "id", expire = RETENTION)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
