use idempotent_runtime::{Error, KeyPart, idempotent};

#[derive(KeyPart)]
struct Amount<T> {
    value: T,
    currency: String,
}

#[idempotent(key = "(id, amount)")]
async fn pay(id: u64, amount: Amount<f64>) -> Result<u64, Error> {
    drop((amount.value, amount.currency));
    Ok(id)
}

fn main() {}
