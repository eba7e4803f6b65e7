use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "#p0")]
async fn create(user: String, id: u64) -> Result<u64, Error> {
    drop(user);
    Ok(id)
}

fn main() {}
