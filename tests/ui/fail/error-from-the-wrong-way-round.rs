use std::fmt;

use idempotent_runtime::{Error, idempotent};

#[derive(Debug)]
struct PayError(String);

impl fmt::Display for PayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PayError {}

impl From<PayError> for Error {
    fn from(error: PayError) -> Self {
        unimplemented!("{error}")
    }
}

#[idempotent(key = "id", mode = "strong")]
async fn pay(id: u64) -> Result<u64, PayError> {
    Ok(id)
}

fn main() {}
