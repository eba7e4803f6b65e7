use idempotent_runtime::{Error, idempotent};

#[cfg_attr(not(test), tokio::main(flavor = "current_thread"))]
#[idempotent(key = const "nightly")]
async fn main() -> Result<(), Error> {
    Ok(())
}
