use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "(user, seq")]
async fn open(user: u64, seq: u64) -> Result<u64, Error> {
    Ok(user + seq)
}

#[idempotent(key = "user, seq)")]
async fn close(user: u64, seq: u64) -> Result<u64, Error> {
    Ok(user + seq)
}

#[idempotent(key = "[user, seq")]
async fn bracket(user: u64, seq: u64) -> Result<u64, Error> {
    Ok(user + seq)
}

#[idempotent(fingerprint = "user.len(")]
async fn call(user: String) -> Result<u64, Error> {
    Ok(user.len() as u64)
}

fn main() {}
