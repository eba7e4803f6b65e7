use idempotent_runtime::{Error, Idempotency, idempotent};

#[idempotent(key = "id", with = Idempotency::builder().build())]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {
    drop(Idempotency::builder());
}
