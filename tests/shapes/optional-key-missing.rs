#![deny(warnings)]

use idempotent_runtime::{Error, ErrorKind, idempotent};

#[idempotent(key = "reference?", mode = "strong")]
async fn create(reference: Option<String>) -> Result<bool, Error> {
    Ok(reference.is_some())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert!(create(Some("a".to_owned())).await.unwrap());
    assert_eq!(create(None).await.unwrap_err().kind(), ErrorKind::MissingKey);
}
