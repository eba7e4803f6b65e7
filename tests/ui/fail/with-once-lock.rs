use std::sync::OnceLock;

use idempotent_runtime::{Error, Idempotency, idempotent};

static INSTANCE: OnceLock<Idempotency> = OnceLock::new();

#[idempotent(key = "id", with = INSTANCE)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
