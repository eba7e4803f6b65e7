use idempotent_runtime::{Error, idempotent};

#[idempotent(key = const "order:{id}", mode = "strong")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
