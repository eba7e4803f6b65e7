use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", detach)]
async fn create(id: &str) -> Result<u64, Error> {
    Ok(id.len() as u64)
}

fn main() {}
