use idempotent_runtime::{Error, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order(u64);

struct OrderError(Error);

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

#[idempotent(key = "id", mode = "strong")]
async fn create(id: u64) -> Result<Result<Order, OrderError>, Error> {
    Ok(Ok(Order(id)))
}

fn main() {}
