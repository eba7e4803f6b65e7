#![deny(warnings)]

use idempotent_runtime::{Error, ErrorKind, idempotent};

#[idempotent]
async fn touch() -> Result<(), Error> {
    Ok(())
}

#[idempotent()]
async fn touch_again() -> Result<(), Error> {
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(touch().await.unwrap_err().kind(), ErrorKind::MissingKey);
    assert_eq!(touch_again().await.unwrap_err().kind(), ErrorKind::MissingKey);
}
