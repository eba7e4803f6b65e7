use idempotent_runtime::{Error, idempotent};

#[derive(Debug)]
struct OrderError;

impl From<Error> for OrderError {
    fn from(_: Error) -> Self {
        Self
    }
}

#[idempotent(key = "id", mode = "strong", final_errors = "all")]
async fn pay(id: u64) -> Result<u64, OrderError> {
    Ok(id)
}

fn main() {}
