use idempotent_runtime::{Error, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order(u64);

impl Order {
    #[idempotent(key = "id")]
    async fn create(id: u64) -> Result<Self, Error> {
        Ok(Self(id))
    }
}

fn main() {
    drop(Order::create(1));
}
