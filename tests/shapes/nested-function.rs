#![deny(warnings)]

use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong")]
async fn outer(id: u64) -> Result<u64, Error> {
    #[idempotent(name = "outer.inner", key = "id", mode = "strong")]
    async fn inner(id: u64) -> Result<u64, Error> {
        Ok(id * 2)
    }
    Ok(inner(id).await? + 1)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(outer(1).await.unwrap(), 3);
    assert_eq!(outer(1).await.unwrap(), 3);

    #[idempotent(name = "main.local", key = "id", mode = "strong")]
    async fn local(id: u64) -> Result<u64, Error> {
        Ok(id)
    }
    assert_eq!(local(4).await.unwrap(), 4);
}
