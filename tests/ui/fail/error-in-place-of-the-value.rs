use idempotent_runtime::{Error, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
}

#[derive(Serialize, Deserialize)]
enum OrderError {
    Refused(Error),
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

#[idempotent(key = "id", mode = "strong")]
async fn create(id: u64) -> Result<OrderError, Order> {
    Err(Order { id })
}

fn main() {}
