use async_trait::async_trait;
use idempotent_runtime::{Error, idempotent};

struct Orders;

#[async_trait]
trait Create {
    async fn create(&self, id: u64) -> Result<u64, Error>;
}

#[async_trait]
impl Create for Orders {
    #[idempotent(name = "orders.create", key = "id", detach)]
    async fn create(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

fn main() {}
