use idempotent_runtime::{Error, Outcome, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order(u64);

struct OrderError(Error);

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

#[idempotent(key = "id")]
async fn create(id: u64) -> Outcome<Result<Order, OrderError>> {
    Ok(Order(id)).into()
}

fn main() {}
