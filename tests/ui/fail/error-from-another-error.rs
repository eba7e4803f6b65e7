use std::fmt::Error;

use idempotent_runtime::idempotent;

enum OrderError {
    Refused(Error),
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

#[idempotent(key = "id")]
async fn create(id: u64) -> Result<u64, OrderError> {
    Ok(id)
}

fn main() {}
