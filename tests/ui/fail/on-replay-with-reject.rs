use idempotent_runtime::{Error, idempotent};

pub fn count(_: &u64) {}

#[idempotent(key = "id", mode = "reject", on_replay = count)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
