use idempotent_runtime::{Error, idempotent};

#[idempotent(key = const day)]
async fn report(day: u32) -> Result<u32, Error> {
    Ok(day)
}

fn main() {}
