use idempotent_runtime::{Error, idempotent};

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Failure;

impl From<Error> for Failure {
    fn from(_: Error) -> Self {
        Failure
    }
}

fn is_final(_: Failure) -> bool {
    true
}

#[idempotent(key = "id", mode = "reject", final_errors = is_final)]
async fn create(id: u64) -> Result<u64, Failure> {
    Ok(id)
}

fn main() {}
