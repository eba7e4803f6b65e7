use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

fn count(_: &u64) {}

#[idempotent(key = "req.id", expire = "5m", colour = "10s")]
async fn time(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "req.id", mode = "strong", colour = count)]
async fn function(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(colour = "order:{req.id}")]
async fn path(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "req.id", colour = "strong")]
async fn mode(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
