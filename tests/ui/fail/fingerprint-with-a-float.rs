use idempotent_runtime::{Error, idempotent};

struct Payment {
    id: u64,
    amount: f64,
}

#[idempotent(key = payment.id, fingerprint = payment.amount, mode = "strong")]
async fn pay(payment: Payment) -> Result<u64, Error> {
    Ok(payment.id)
}

fn main() {}
