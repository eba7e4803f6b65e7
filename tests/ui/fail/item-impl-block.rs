use idempotent_runtime::{Error, idempotent};

struct Orders;

#[idempotent(key = "id")]
impl Orders {
    async fn create(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

fn main() {
    drop(Orders.create(1));
}
