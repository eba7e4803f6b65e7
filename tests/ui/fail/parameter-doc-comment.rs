use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong")]
async fn create(
    /// The order's number, from the client.
    /// It is the same in every attempt.
    id: u64,
) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
