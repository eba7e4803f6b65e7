mod prelude {
    pub use idempotent_runtime::{Error, idempotent};
}

use prelude::{Error, idempotent};

#[idempotent(key = "id", crate = crate::prelude)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", crate = "crate::prelude")]
async fn quoted(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
