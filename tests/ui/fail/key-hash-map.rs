use idempotent_runtime::{Error, idempotent};

use std::collections::HashMap;

#[idempotent(key = "tags")]
async fn create(tags: HashMap<String, String>) -> Result<u64, Error> {
    Ok(tags.len() as u64)
}

fn main() {}
