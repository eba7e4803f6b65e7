use idempotent_runtime::{Error, idempotent};

#[tokio::test]
#[idempotent(key = const "nightly")]
async fn runs_once() -> Result<(), Error> {
    Ok(())
}

fn main() {}
