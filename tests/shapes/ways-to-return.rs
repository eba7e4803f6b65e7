#![deny(warnings)]

use std::convert::Infallible;
use std::num::ParseIntError;

use idempotent_runtime::{Error, idempotent};

#[derive(Debug)]
enum Failure {
    Parse,
    Idempotency,
}

impl From<Error> for Failure {
    fn from(_: Error) -> Self {
        Self::Idempotency
    }
}

impl From<ParseIntError> for Failure {
    fn from(_: ParseIntError) -> Self {
        Self::Parse
    }
}

#[idempotent(key = "text", mode = "strong")]
async fn question_mark(text: &str) -> Result<u64, Failure> {
    let number = text.parse::<u64>()?;
    if number == 0 {
        return Ok(number);
    }
    let found = 'search: {
        for i in 1..number {
            if i * i == number {
                break 'search i;
            }
        }
        0
    };
    match found {
        0 => Err(Failure::Parse),
        root => Ok(root),
    }
}

#[idempotent(key = "id", mode = "reject")]
async fn never_a_value(id: u64) -> Result<Infallible, Failure> {
    if id == 0 {
        return Err(Failure::Parse);
    }
    Err(Failure::Idempotency)
}

#[idempotent(key = "id", mode = "strong")]
async fn diverges(id: u64) -> Result<u64, Failure> {
    loop {
        if id > 0 {
            return Ok(id);
        }
        tokio::task::yield_now().await;
    }
}

#[idempotent(key = "id", mode = "strong")]
async fn panics(id: u64) -> Result<u64, Failure> {
    unreachable!("{id}")
}

#[idempotent(key = "id", mode = "strong")]
async fn collects(id: u8) -> Result<Vec<u64>, Failure> {
    Ok((0..id).map(Into::into).collect())
}

#[idempotent(key = "id", mode = "strong")]
async fn delegates(id: u64) -> Result<u64, Failure> {
    diverges(id).await
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(question_mark("9").await.unwrap(), 3);
    assert_eq!(question_mark("0").await.unwrap(), 0);
    assert!(question_mark("x").await.is_err());
    assert!(never_a_value(0).await.is_err());
    assert_eq!(diverges(1).await.unwrap(), 1);
    drop(panics(1));
    assert_eq!(collects(2).await.unwrap(), [0, 1]);
    assert_eq!(delegates(2).await.unwrap(), 2);
}
