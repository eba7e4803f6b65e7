use idempotent_runtime::{Error, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct OrderError;

impl From<Error> for OrderError {
    fn from(_: Error) -> Self {
        Self
    }
}

impl OrderError {
    fn is_final(self) -> bool {
        true
    }
}

#[idempotent(key = "id", mode = "strong", final_errors = OrderError::is_final)]
async fn create(id: u64) -> Result<u64, OrderError> {
    Ok(id)
}

fn main() {}
