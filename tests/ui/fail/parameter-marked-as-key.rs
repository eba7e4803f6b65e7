use idempotent_runtime::{Error, idempotent};

#[idempotent(mode = "strong")]
async fn create(#[key] id: u64, item: String) -> Result<u64, Error> {
    Ok(id + item.len() as u64)
}

#[idempotent(mode = "strong")]
async fn both(#[key] user: u64, #[key] id: u64, #[scope] tenant: u64) -> Result<u64, Error> {
    Ok(user + id + tenant)
}

fn main() {}
