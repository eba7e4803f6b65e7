use idempotent_runtime::{Error, idempotent};

static DUPLICATE: String = String::new();

#[idempotent(key = "id", message = DUPLICATE)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
