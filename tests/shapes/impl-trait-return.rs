#![deny(warnings)]

use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "reject")]
async fn reject(id: u64) -> Result<impl Iterator<Item = u64>, Error> {
    Ok(std::iter::repeat_n(id, 2))
}

#[idempotent(key = "id", mode = "window", expire = "5s")]
async fn window(id: u64) -> Result<Box<impl Fn() -> u64>, Error> {
    if id == 0 {
        return Err(window_error().await);
    }
    Ok(Box::new(move || id))
}

async fn window_error() -> Error {
    reject(1).await.err().unwrap()
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(reject(1).await.unwrap().sum::<u64>(), 2);
    assert_eq!(window(3).await.unwrap()(), 3);
}
