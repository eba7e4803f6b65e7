use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", bind_payload_after_failure)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
