use idempotent_runtime::{Error, Outcome, idempotent};

#[idempotent(key = "id")]
async fn find(id: u64) -> Result<Option<Outcome<u64>>, Error> {
    Ok(Some(id.into()))
}

fn main() {}
