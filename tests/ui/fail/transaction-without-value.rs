use idempotent_runtime::{Error, idempotent};

struct Connection;

#[idempotent(key = "id", mode = "strong", transaction)]
async fn create(conn: &mut Connection, id: u64) -> Result<u64, Error> {
    let _ = conn;
    Ok(id)
}

fn main() {}
