use idempotent_runtime::{Error, idempotent};

fn count(_: &u64, _: &str) {}

#[idempotent(key = "id", mode = "strong", on_replay = count)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
