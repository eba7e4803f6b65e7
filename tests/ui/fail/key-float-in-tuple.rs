use idempotent_runtime::{Error, idempotent};

#[idempotent(key = (id, price))]
async fn create(id: u64, price: f64) -> Result<u64, Error> {
    drop(price);
    Ok(id)
}

fn main() {}
