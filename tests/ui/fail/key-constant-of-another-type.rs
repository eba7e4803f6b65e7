use idempotent_runtime::{Error, idempotent};

const VERSION: f64 = 1.5;

#[idempotent(key = const VERSION)]
async fn migrate() -> Result<(), Error> {
    Ok(())
}

fn main() {}
