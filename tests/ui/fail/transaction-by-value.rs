use idempotent_runtime::{Error, idempotent};

struct Connection;

#[idempotent(key = "id", transaction = "tx")]
async fn pay(tx: Connection, id: u64) -> Result<u64, Error> {
    let _ = tx;
    Ok(id)
}

fn main() {}
