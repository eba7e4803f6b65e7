use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong")]
async fn keep<T: Send>(id: u64, value: T) -> Result<T, Error> {
    Ok(value)
}

fn main() {}
