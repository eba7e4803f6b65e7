use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "user", fingerprint = "order", mode = "window")]
async fn click(user: u64, order: u64) -> Result<u64, Error> {
    Ok(user + order)
}

fn main() {}
