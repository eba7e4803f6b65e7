use std::sync::{Arc, Mutex};

use idempotent_runtime::{Error, Idempotency, idempotent};

#[idempotent(key = "id", with = shared)]
async fn create(shared: Arc<Mutex<Idempotency>>, id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
