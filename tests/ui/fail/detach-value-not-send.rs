use std::rc::Rc;

use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "reject", detach)]
async fn create(id: u64) -> Result<Rc<u64>, Error> {
    Ok(Rc::new(id))
}

fn main() {}
