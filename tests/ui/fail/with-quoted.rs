use idempotent_runtime::{Error, Idempotency, idempotent};

#[idempotent(key = "id", with = "idem")]
async fn create(id: u64, idem: Idempotency) -> Result<u64, Error> {
    drop(idem);
    Ok(id)
}

fn main() {}
