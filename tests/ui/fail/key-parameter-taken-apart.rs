use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "ids")]
async fn array([first, second]: [u64; 2]) -> Result<u64, Error> {
    Ok(first + second)
}

#[idempotent(key = ids)]
async fn tuple((first, second): (u64, u64)) -> Result<u64, Error> {
    Ok(first + second)
}

fn main() {}
