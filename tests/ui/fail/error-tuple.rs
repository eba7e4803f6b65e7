use idempotent_runtime::idempotent;

#[idempotent(key = "id")]
async fn create(id: u64) -> Result<u64, (u16, String)> {
    Ok(id)
}

fn main() {}
