use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", expireTime = 5, timeUnit = TimeUnit.MINUTES)]
async fn pay(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
