use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong", on_replay = |id| println!("{id}"))]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
