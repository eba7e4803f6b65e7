use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", colour = [1, 2])]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
