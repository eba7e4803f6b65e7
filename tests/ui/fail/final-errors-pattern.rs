use idempotent_runtime::{Error, idempotent};

#[derive(Debug)]
enum PayError {
    Declined(String),
}

impl From<Error> for PayError {
    fn from(error: Error) -> Self {
        Self::Declined(error.to_string())
    }
}

#[idempotent(key = "id", mode = "strong", final_errors = PayError::Declined(_))]
async fn create(id: u64) -> Result<u64, PayError> {
    Ok(id)
}

fn main() {}
