use idempotent_runtime::{Error, idempotent};

fn is_final() -> bool {
    true
}

#[idempotent(key = "id", final_errors = is_final())]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
