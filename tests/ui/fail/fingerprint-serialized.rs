use idempotent_runtime::{Error, Fingerprint, idempotent};

#[derive(serde::Serialize)]
struct Order {
    id: u64,
}

#[idempotent(key = "order.id", fingerprint = Fingerprint::of_serialized(&order).unwrap())]
async fn unwrapped(order: Order) -> Result<u64, Error> {
    Ok(order.id)
}

#[idempotent(key = "order.id", fingerprint = Fingerprint::of_serialized(&order)?)]
async fn with_a_question_mark(order: Order) -> Result<u64, Error> {
    Ok(order.id)
}

fn main() {
    let _ = Fingerprint::of(&1);
}
