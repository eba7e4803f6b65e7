use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id")]
async fn create<E: std::error::Error>(id: u64) -> Result<u64, E> {
    Ok(id)
}

fn main() {}
