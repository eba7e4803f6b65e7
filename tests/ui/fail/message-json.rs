use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "reject", message = r#"{"error": "duplicate", "id": {id}}"#)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "reject", message = "{code: 409}")]
async fn cancel(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
