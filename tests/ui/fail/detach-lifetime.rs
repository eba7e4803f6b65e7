use idempotent_runtime::{Error, idempotent};

use std::borrow::Cow;

#[idempotent(key = "id", detach)]
async fn create(id: u64, text: Cow<'_, str>) -> Result<u64, Error> {
    drop(text);
    Ok(id)
}

fn main() {}
