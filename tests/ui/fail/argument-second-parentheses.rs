use idempotent_runtime::{Error, idempotent};

#[idempotent((key = "id", mode = "strong"))]
async fn a(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent([key = "id"])]
async fn b(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
