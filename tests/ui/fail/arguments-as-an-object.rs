use idempotent_runtime::{Error, idempotent};

#[idempotent({ key: "id", mode: "strong", expire: "10m" })]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
