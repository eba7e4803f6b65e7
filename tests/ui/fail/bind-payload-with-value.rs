use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", fingerprint = "id", bind_payload_after_failure = "yes")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
