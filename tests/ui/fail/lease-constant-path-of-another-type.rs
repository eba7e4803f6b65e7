use idempotent_runtime::{Error, idempotent};

mod settings {
    pub(crate) const LEASE: u32 = 30;
}

#[idempotent(key = "id", lease = settings::LEASE)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
