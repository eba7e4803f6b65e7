use idempotent_runtime::{Error, idempotent};

fn count(_: &u64) {}

#[idempotent(key = "id", mode = "strong", response_hook = count)]
async fn replays(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "reject", response_hook = count)]
async fn refuses(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
