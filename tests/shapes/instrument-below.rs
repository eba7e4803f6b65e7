#![deny(warnings)]

use idempotent_runtime::{Error, idempotent};
use tracing::instrument;

#[idempotent(key = "id", mode = "strong")]
#[instrument]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[derive(Debug)]
struct Orders;

impl Orders {
    #[idempotent(name = "orders.create", key = "id", mode = "strong")]
    #[instrument(skip(self), ret)]
    async fn create(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(create(1).await.unwrap(), 1);
    assert_eq!(Orders.create(1).await.unwrap(), 1);
}
