use idempotent_runtime::{Error, idempotent};

use std::rc::Rc;

#[idempotent(key = "id", detach)]
async fn create(id: u64, text: Rc<str>) -> Result<u64, Error> {
    drop(text);
    Ok(id)
}

fn main() {}
