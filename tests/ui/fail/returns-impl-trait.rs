use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id")]
async fn create(id: u64) -> Result<impl Iterator<Item = u64>, Error> {
    Ok(std::iter::once(id))
}

fn main() {}
