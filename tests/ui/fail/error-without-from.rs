use idempotent_runtime::idempotent;

struct Failure;

#[idempotent(key = "id")]
async fn create(id: u64) -> Result<u64, Failure> {
    Ok(id)
}

fn main() {}
