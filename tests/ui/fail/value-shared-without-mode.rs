use std::sync::Arc;

use idempotent_runtime::{Error, idempotent};

struct Connection;

#[idempotent(key = "id")]
async fn open(id: u64) -> Result<Arc<Connection>, Error> {
    Ok(Arc::new(Connection))
}

fn main() {}
