#![deny(warnings)]

use idempotent_runtime::{Error, idempotent};

struct Connection(u64);

#[idempotent(key = "id", mode = "reject", message = "already connected")]
async fn connect(id: u64) -> Result<Connection, Error> {
    Ok(Connection(id))
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(connect(1).await.unwrap().0, 1);
    assert!(connect(1).await.is_err());
}
