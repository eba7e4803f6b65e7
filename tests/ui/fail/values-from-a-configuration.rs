use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "${orders.mode}", expire = "${orders.ttl}", wait = "%s")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", message = "${orders.duplicate}")]
async fn cancel(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
