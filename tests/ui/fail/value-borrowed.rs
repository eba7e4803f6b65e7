use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong")]
async fn create(id: &str) -> Result<&str, Error> {
    Ok(id)
}

fn main() {}
