use idempotent_runtime::{Error, idempotent};

async fn audit(_: &u64) {}

#[idempotent(key = "id", mode = "strong", on_replay = audit)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
