use idempotent_runtime::idempotent;

#[idempotent(key = "id")]
async fn create(id: u64) -> Result<u64, std::fmt::Error> {
    Ok(id)
}

fn main() {}
