use idempotent_runtime::idempotent;

#[idempotent(key = "id")]
async fn create(id: u64) -> std::io::Result<u64> {
    Ok(id)
}

fn main() {}
