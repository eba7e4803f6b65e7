use idempotent_runtime::{Error, idempotent};

#[derive(Clone, Copy)]
struct OrderId(u64);

impl From<OrderId> for String {
    fn from(id: OrderId) -> String {
        format!("ord_{}", id.0)
    }
}

#[idempotent(key = id.into())]
async fn create(id: OrderId) -> Result<u64, Error> {
    Ok(id.0)
}

fn main() {}
