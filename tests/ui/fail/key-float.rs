use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "price")]
async fn create(price: f64) -> Result<u64, Error> {
    Ok(price as u64)
}

fn main() {}
