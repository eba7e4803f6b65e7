use idempotent_runtime::store::MemoryStore;
use idempotent_runtime::{Error, Idempotency, idempotent};

#[idempotent(key = "id", with = &Idempotency::in_memory().unwrap())]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", with = Idempotency::builder().store(store().await?).build()?)]
async fn cancel(id: u64) -> Result<u64, Error> {
    Ok(id)
}

async fn store() -> Result<MemoryStore, Error> {
    Ok(MemoryStore::new())
}

fn main() {
    drop(store());
    drop(Idempotency::builder());
}
