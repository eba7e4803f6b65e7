use idempotent_runtime::{Error, idempotent};

#[tokio::main]
#[idempotent(key = const "nightly")]
async fn main() -> Result<(), Error> {
    Ok(())
}
