use idempotent_runtime::{Outcome, idempotent};

#[idempotent(key = "id")]
async fn create(id: u64) -> Outcome<u64> {
    id.into()
}

fn main() {}
