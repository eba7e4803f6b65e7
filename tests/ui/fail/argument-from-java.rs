use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(keyExpression = "req.id", expireTime = 300, timeUnit = SECONDS, returnCachedResult = true)]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
