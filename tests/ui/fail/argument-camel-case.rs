use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", onStoreError = "run")]
async fn a(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", on_store_err = "run")]
async fn b(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", MaxRun = "2h")]
async fn c(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
