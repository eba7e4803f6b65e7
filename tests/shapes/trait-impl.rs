#![deny(warnings)]

use idempotent_runtime::{Error, idempotent};

trait Create {
    async fn create(&self, id: u64) -> Result<u64, Error>;

    #[idempotent(name = "orders.create_default", key = "id", mode = "strong")]
    async fn create_default(&self, id: u64) -> Result<u64, Error> {
        self.create(id).await
    }
}

struct Orders;

impl Create for Orders {
    #[idempotent(name = "orders.create", key = "id", mode = "strong")]
    async fn create(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(Orders.create(1).await.unwrap(), 1);
    assert_eq!(Orders.create_default(2).await.unwrap(), 2);
}
