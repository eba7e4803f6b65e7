use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "payout-%d-%s", payout_id, order.currency, mode = "strong")]
async fn pay_out(payout_id: u64, order: Order) -> Result<u64, Error> {
    drop(order);
    Ok(payout_id)
}

struct Order {
    currency: String,
}

fn main() {}
