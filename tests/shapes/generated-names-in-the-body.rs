#![deny(warnings)]

use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "__idempotent_key", scope = "__idempotent_returns", mode = "strong")]
async fn create(__idempotent_key: u64, __idempotent_returns: u64) -> Result<u64, Error> {
    let __idempotent_body = __idempotent_key + 1;
    let __idempotent_never = __idempotent_returns + 1;
    Ok(__idempotent_body + __idempotent_never)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(create(1, 2).await.unwrap(), 5);
}
