use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong")]
async fn sign(id: u8) -> Result<[u8; 64], Error> {
    Ok([id; 64])
}

fn main() {}
