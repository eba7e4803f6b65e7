use idempotent_runtime::{Error, idempotent};

struct Charge<'a> {
    id: u64,
    card: &'a str,
}

#[idempotent(key = "charge.id", mode = "strong", detach)]
async fn capture(charge: Charge<'_>) -> Result<u64, Error> {
    Ok(charge.id + charge.card.len() as u64)
}

#[idempotent(key = "charge.id", mode = "strong", detach)]
async fn cancel(charge: &Charge<'_>) -> Result<u64, Error> {
    Ok(charge.id + charge.card.len() as u64)
}

fn main() {}
