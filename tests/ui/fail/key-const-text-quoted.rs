use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "const nightly")]
async fn nightly() -> Result<u64, Error> {
    Ok(1)
}

fn main() {}
