use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "user", mode = "strong")]
#[idempotent(key = "seq", expire = "5m")]
async fn append(user: u64, seq: u64) -> Result<u64, Error> {
    Ok(user + seq)
}

fn main() {}
