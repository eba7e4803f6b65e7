use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", expire = "1.5h")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
