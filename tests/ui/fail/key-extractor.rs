use idempotent_runtime::{Error, idempotent};

struct Path<T>(T);

#[idempotent(key = "order_id", mode = "reject")]
async fn ship(order_id: Path<u64>) -> Result<(), Error> {
    drop(order_id.0);
    Ok(())
}

fn main() {}
