use idempotent_runtime::idempotent;

#[idempotent(key = "id", mode = "reject")]
async fn create(id: u64) -> Result<u64, &'static str> {
    if id == 0 {
        return Err("zero");
    }
    Ok(id)
}

fn main() {}
