use idempotent_runtime::{Error, idempotent};

const TTL: u64 = 300;

#[idempotent(key = "id", expire = TTL)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
