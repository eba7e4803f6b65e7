use idempotent_runtime::{Error, idempotent};

#[idempotent(
    /// The client's number,
    /// which it sends with every attempt.
    key = "id",
    mode = "strong", //! and its answer
    #[cfg(windows)]
    expire = "5m"
)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
