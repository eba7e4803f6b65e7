use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
    user: u64,
}

#[idempotent(key = "req.id", expire = "5m", ttl = 300)]
async fn time(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(cacheKey = "req.user", key = "req.id")]
async fn key(req: Request) -> Result<u64, Error> {
    Ok(req.id + req.user)
}

#[idempotent(key = "req.id", mode = "reject", returnCachedResult = true)]
async fn mode(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "req.id", expire = 5, timeUnit = TimeUnit.MINUTES)]
async fn unit(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "req.id", name = "orders", version = 2)]
async fn version(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
