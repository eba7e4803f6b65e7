#![deny(warnings)]

use std::cell::Cell;
use std::rc::Rc;

use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong")]
async fn create(id: u64, seen: Rc<Cell<u64>>) -> Result<u64, Error> {
    seen.set(id);
    tokio::task::yield_now().await;
    Ok(seen.get())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(create(1, Rc::new(Cell::new(0))).await.unwrap(), 1);
}
