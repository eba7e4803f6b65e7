use idempotent_runtime::{Error, idempotent};

use std::rc::Rc;

type Text = Rc<str>;

#[idempotent(key = "id", detach)]
async fn create(id: u64, text: Text) -> Result<u64, Error> {
    drop(text);
    Ok(id)
}

fn main() {}
