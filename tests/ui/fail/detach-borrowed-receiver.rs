use idempotent_runtime::{Error, idempotent};

struct Orders;

impl Orders {
    #[idempotent(name = "orders.create", key = "id", detach)]
    async fn create(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

fn main() {
    drop(Orders.create(1));
}
