use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "reject", message = "order {id:08} exists")]
async fn pay(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
