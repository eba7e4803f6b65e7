use std::time::Duration;

use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
    ttl: Duration,
    text: String,
}

#[idempotent(key = "req.id", expire = req.ttl)]
async fn expire(req: Request) -> Result<String, Error> {
    Ok(req.text)
}

#[idempotent(key = "id", wait = Duration::from_millis(millis), lease = lease)]
async fn times(id: u64, millis: u64, lease: Duration) -> Result<u64, Error> {
    Ok(id + millis + lease.as_secs())
}

#[idempotent(key = "id", mode = "reject", message = text)]
async fn word(id: u64, text: String) -> Result<u64, Error> {
    Ok(id + text.len() as u64)
}

#[idempotent(key = "req.id", mode = "reject", message = req.text)]
async fn field(req: Request) -> Result<String, Error> {
    Ok(req.text)
}

fn main() {}
