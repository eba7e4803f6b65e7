#![deny(warnings)]

use idempotent_runtime::{Error, idempotent};
use tracing::instrument;

#[instrument]
#[idempotent(key = "id", mode = "strong")]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[derive(Debug)]
struct Orders;

impl Orders {
    #[instrument(skip(self), err)]
    #[idempotent(name = "orders.create", key = "id", mode = "strong")]
    async fn create(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(create(1).await.unwrap(), 1);
    assert_eq!(Orders.create(1).await.unwrap(), 1);
}
