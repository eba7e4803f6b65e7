use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", shared_name)]
async fn create_order(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
