use std::cell::RefCell;
use std::rc::Rc;

use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong", detach)]
async fn import(id: u64) -> Result<u64, Error> {
    let seen = Rc::new(RefCell::new(id));
    tokio::task::yield_now().await;
    *seen.borrow_mut() += 1;
    Ok(*seen.borrow())
}

fn main() {}
