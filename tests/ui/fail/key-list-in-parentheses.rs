use idempotent_runtime::{Error, idempotent};

#[idempotent(key(campaign, recipient))]
async fn send(campaign: u64, recipient: u64) -> Result<u64, Error> {
    Ok(campaign + recipient)
}

fn main() {}
