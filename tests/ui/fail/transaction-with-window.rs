use idempotent_runtime::{Error, idempotent};

struct Connection;

#[idempotent(key = "id", transaction = "tx", mode = "window")]
async fn pay(tx: &mut Connection, id: u64) -> Result<u64, Error> {
    let _ = tx;
    Ok(id)
}

fn main() {}
