use idempotent_runtime::{Error, idempotent};

struct Pool;

impl Pool {
    async fn begin(&self) -> u64 {
        7
    }
}

#[idempotent(key = "id", transaction = "tx", mode = "strong")]
async fn pay(pool: &Pool, id: u64) -> Result<u64, Error> {
    let mut tx = pool.begin().await;
    tx += id;
    Ok(tx)
}

fn main() {}
