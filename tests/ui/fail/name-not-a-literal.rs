use idempotent_runtime::{Error, idempotent};

const NAME: &str = "orders.create";

#[idempotent(key = "id", name = NAME)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
