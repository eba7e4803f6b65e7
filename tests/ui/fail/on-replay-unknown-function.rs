use idempotent_runtime::{Error, idempotent};

fn count(_: &u64) {}

#[idempotent(key = "id", mode = "strong", on_replay = cuont)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
