use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "reject", abandon = "30s", expire = "1h")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
