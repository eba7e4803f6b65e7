use idempotent_runtime::{Error, idempotent};

#[derive(serde::Serialize, serde::Deserialize)]
enum PayError {
    Declined,
    Refused,
}

impl From<Error> for PayError {
    fn from(_: Error) -> Self {
        Self::Refused
    }
}

#[idempotent(key = "id", final_errors = PayError::Declined)]
async fn pay(id: u64) -> Result<u64, PayError> {
    Ok(id)
}

fn main() {}
