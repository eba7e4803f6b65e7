use std::sync::LazyLock;

use idempotent_runtime::{Error, Idempotency, idempotent};

static INSTANCE: LazyLock<Option<Idempotency>> = LazyLock::new(|| Idempotency::in_memory().ok());

#[idempotent(key = "id", with = crate::INSTANCE)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
