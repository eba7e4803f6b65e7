use idempotent_runtime::{Error, idempotent};

#[derive(Debug)]
enum PayError {
    Declined,
}

impl From<Error> for PayError {
    fn from(_: Error) -> Self {
        Self::Declined
    }
}

#[idempotent(key = "id", mode = "strong", final_errors = matches!(error, PayError::Declined))]
async fn create(id: u64) -> Result<u64, PayError> {
    Ok(id)
}

fn main() {}
