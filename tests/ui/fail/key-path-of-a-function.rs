use idempotent_runtime::{Error, idempotent};

fn order_key(id: &u64) -> String {
    id.to_string()
}

#[idempotent(key = order_key)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
