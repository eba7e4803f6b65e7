#![deny(warnings)]

use std::fmt::Display;

use idempotent_runtime::{Error, KeyPart, idempotent};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[idempotent(key = "(id, value)", mode = "strong")]
async fn store<K: KeyPart, T, const N: usize>(id: K, value: T) -> Result<[T; 1], Error>
where
    T: KeyPart + Serialize + DeserializeOwned + Clone,
{
    drop(id);
    let _ = N;
    Ok([value])
}

#[idempotent(key = "text", mode = "reject")]
async fn show(text: impl AsRef<str> + KeyPart, rest: &[impl Display]) -> Result<usize, Error> {
    Ok(text.as_ref().len() + rest.len())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(store::<_, _, 3>(1, "a".to_owned()).await.unwrap(), ["a"]);
    assert_eq!(show("abc", &[1, 2]).await.unwrap(), 5);
}
