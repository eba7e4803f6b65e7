#![deny(warnings)]

use async_trait::async_trait;
use idempotent_runtime::{Error, idempotent};
use tracing::instrument;

#[async_trait]
trait Create {
    async fn above(&self, id: u64) -> Result<u64, Error>;

    async fn below(&self, pair: (u64, u64)) -> Result<u64, Error>;
}

#[derive(Debug)]
struct Orders;

#[async_trait]
impl Create for Orders {
    #[instrument]
    #[idempotent(name = "orders.above", key = "id", mode = "strong")]
    async fn above(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }

    #[idempotent(name = "orders.below", key = "(a, b)", mode = "strong")]
    #[instrument(skip(self))]
    async fn below(&self, (a, b): (u64, u64)) -> Result<u64, Error> {
        Ok(a + b)
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(Orders.above(1).await.unwrap(), 1);
    assert_eq!(Orders.below((1, 2)).await.unwrap(), 3);
}
