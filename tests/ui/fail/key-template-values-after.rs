use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "order-{}", id, mode = "strong")]
async fn one(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "{}:{}", user, id)]
async fn two(user: u64, id: u64) -> Result<u64, Error> {
    Ok(user + id)
}

#[idempotent(key = "id", mode = "reject", message = "order {} exists", id)]
async fn message(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
