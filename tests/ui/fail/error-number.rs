use idempotent_runtime::idempotent;

#[idempotent(key = "id", mode = "strong")]
async fn create(id: u64) -> Result<u64, u32> {
    Ok(id)
}

fn main() {}
