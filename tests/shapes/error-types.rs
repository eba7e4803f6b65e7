//! Error types that people have already: each takes a refusal over without any code.
#![deny(warnings)]

use std::error::Error as StdError;
use std::io;

use idempotent_runtime::{Error, ErrorKind, idempotent};
use serde::{Deserialize, Serialize};

#[idempotent(key = "id", mode = "reject")]
async fn with_anyhow(id: u64) -> anyhow::Result<u64> {
    Ok(id)
}

#[idempotent(key = "id", mode = "reject")]
async fn with_eyre(id: u64) -> Result<u64, eyre::Report> {
    Ok(id)
}

#[idempotent(key = "id", mode = "reject")]
async fn boxed(id: u64) -> Result<u64, Box<dyn StdError + Send + Sync>> {
    Ok(id)
}

#[idempotent(key = "id", mode = "reject")]
async fn with_io(id: u64) -> io::Result<u64> {
    Ok(id)
}

#[idempotent(key = "id", mode = "reject")]
async fn text(id: u64) -> Result<u64, String> {
    Ok(id)
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum Own {
    #[error("declined")]
    Declined,
    #[error(transparent)]
    Refused(#[from] Error),
}

impl Own {
    fn is_final(&self) -> bool {
        matches!(self, Self::Declined)
    }
}

#[idempotent(key = "id", mode = "strong", final_errors = Own::is_final)]
async fn own(id: u64) -> Result<u64, Own> {
    match id {
        0 => Err(Own::Declined),
        id => Ok(text(id).await.unwrap_or(id)),
    }
}

/// Final errors of a type parameter, which has no sources as far as the compiler knows.
#[idempotent(key = "id", mode = "strong", final_errors = always)]
async fn generic<E>(id: u64, error: E) -> Result<u64, E>
where
    E: From<Error> + Serialize + for<'de> Deserialize<'de>,
{
    if id == 0 { Err(error) } else { Ok(id) }
}

fn always<E>(_: &E) -> bool {
    true
}

/// Final errors of a function whose value is not named.
#[idempotent(key = "id", mode = "reject", final_errors = Own::is_final)]
async fn unnamed(id: u64) -> Result<impl std::fmt::Debug, Own> {
    Ok(id)
}

fn kind(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    Error::find_in(error).map(Error::kind)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    let duplicate = Some(ErrorKind::Duplicate);
    assert_eq!(with_anyhow(1).await.unwrap(), 1);
    let error = with_anyhow(1).await.unwrap_err();
    assert_eq!(kind(error.context("outer").as_ref()), duplicate);
    assert_eq!(with_eyre(1).await.unwrap(), 1);
    assert_eq!(kind(with_eyre(1).await.unwrap_err().as_ref()), duplicate);
    assert_eq!(boxed(1).await.unwrap(), 1);
    assert_eq!(kind(&*boxed(1).await.unwrap_err()), duplicate);
    assert_eq!(with_io(1).await.unwrap(), 1);
    assert_eq!(kind(&with_io(1).await.unwrap_err()), duplicate);
    assert_eq!(text(1).await.unwrap(), 1);
    assert!(text(1).await.unwrap_err().contains("duplicate"));
    for _ in 0..2 {
        assert!(matches!(own(0).await, Err(Own::Declined)));
        assert_eq!(own(2).await.unwrap(), 2);
        assert_eq!(generic(0, "closed".to_owned()).await.unwrap_err(), "closed");
    }
    assert_eq!(generic(1, "closed".to_owned()).await.unwrap(), 1);
    assert!(unnamed(1).await.is_ok());
    assert!(matches!(unnamed(1).await, Err(Own::Refused(error)) if error.kind() == ErrorKind::Duplicate));
}
