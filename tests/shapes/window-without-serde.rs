#![deny(warnings)]

use idempotent_runtime::{Error, idempotent};

struct Connection(u64);

struct Failure;

impl From<Error> for Failure {
    fn from(_: Error) -> Self {
        Self
    }
}

#[idempotent(key = "id", mode = "window", expire = "5s")]
async fn connect(id: u64) -> Result<Connection, Failure> {
    Ok(Connection(id))
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(connect(1).await.ok().unwrap().0, 1);
    assert!(connect(1).await.is_err());
}
