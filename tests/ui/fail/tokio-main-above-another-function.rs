use idempotent_runtime::{Error, idempotent};

#[tokio::main]
#[idempotent(key = const "migrate")]
async fn migrate() -> Result<(), Error> {
    Ok(())
}

fn main() {}
