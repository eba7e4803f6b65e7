use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "order:%s")]
async fn create(user: String, id: u64) -> Result<u64, Error> {
    drop(user);
    Ok(id)
}

fn main() {}
