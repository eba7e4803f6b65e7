use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id")]
async fn once<K: std::fmt::Debug>(id: K) -> Result<(), Error> {
    drop(id);
    Ok(())
}

#[idempotent(key = "token:{token}")]
async fn redeem(token: impl std::fmt::Display) -> Result<String, Error> {
    Ok(token.to_string())
}

fn main() {}
