use idempotent_runtime::{Error, idempotent};

#[idempotent(key = uuid::Uuid::new_v4())]
async fn pay(account: String, cents: u64) -> Result<String, Error> {
    Ok(format!("{account}: {cents}"))
}

fn main() {}
