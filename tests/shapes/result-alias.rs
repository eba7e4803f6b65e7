#![deny(warnings)]

use idempotent_runtime::{Error, idempotent};

type Result<T = (), E = Error> = std::result::Result<T, E>;
type Unit = Result;

#[idempotent(key = "id", mode = "strong")]
async fn aliased(id: u64) -> Result<u64> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong")]
async fn without_arguments(id: u64) -> Unit {
    let _ = id;
    Ok(())
}

mod names {
    pub(crate) type Answer = Result<u64, idempotent_runtime::Error>;
}

#[idempotent(key = "id", mode = "reject")]
async fn in_a_module(id: u64) -> names::Answer {
    Ok(id)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(aliased(1).await.unwrap(), 1);
    without_arguments(1).await.unwrap();
    assert_eq!(in_a_module(1).await.unwrap(), 1);
}
