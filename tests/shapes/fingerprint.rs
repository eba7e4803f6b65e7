#![deny(warnings)]

use idempotent_runtime::{Error, ErrorKind, idempotent};

#[idempotent(key = "id", fingerprint = "(amount, currency)", mode = "strong")]
async fn pay(id: u64, amount: u64, currency: &str) -> Result<u64, Error> {
    Ok(id + amount + currency.len() as u64)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(pay(1, 10, "EUR").await.unwrap(), 14);
    assert_eq!(pay(1, 10, "EUR").await.unwrap(), 14);
    assert_eq!(pay(1, 11, "EUR").await.unwrap_err().kind(), ErrorKind::Mismatch);
}
