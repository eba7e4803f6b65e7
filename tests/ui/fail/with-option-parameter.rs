use idempotent_runtime::{Error, Idempotency, idempotent};

#[idempotent(key = "id", with = idem)]
async fn create(idem: Option<&Idempotency>, id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
