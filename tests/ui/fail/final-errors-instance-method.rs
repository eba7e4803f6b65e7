use idempotent_runtime::{Error, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct OrderError;

impl From<Error> for OrderError {
    fn from(_: Error) -> Self {
        Self
    }
}

struct Orders;

impl Orders {
    #[idempotent(name = "orders.create", key = "id", mode = "strong", final_errors = Self::is_final)]
    async fn create(&self, id: u64) -> Result<u64, OrderError> {
        Ok(id)
    }

    fn is_final(&self, _: &OrderError) -> bool {
        true
    }
}

fn main() {
    drop(Orders.create(1));
}
