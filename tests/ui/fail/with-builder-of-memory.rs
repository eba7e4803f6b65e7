use idempotent_runtime::{Config, Error, Idempotency, idempotent};

#[idempotent(key = "id", with = &Idempotency::in_memory().unwrap())]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", with = Idempotency::builder().config(Config::new()).build()?)]
async fn cancel(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {
    drop(Idempotency::builder().config(Config::new()));
}
