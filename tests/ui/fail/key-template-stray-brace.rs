use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "user:{user}}")]
async fn greet(user: u64) -> Result<u64, Error> {
    Ok(user)
}

#[idempotent(key = "user", mode = "reject", message = "{user}} exists")]
async fn message(user: u64) -> Result<u64, Error> {
    Ok(user)
}

fn main() {}
