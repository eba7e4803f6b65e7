use idempotent_runtime::{Error, idempotent};

#[derive(serde::Serialize)]
struct Failure;

impl Failure {
    fn is_final(&self) -> bool {
        true
    }
}

impl From<Error> for Failure {
    fn from(_: Error) -> Self {
        Self
    }
}

#[idempotent(key = "id", mode = "strong", final_errors = Failure::is_final)]
async fn create(id: u64) -> Result<u64, Failure> {
    Ok(id)
}

fn main() {}
