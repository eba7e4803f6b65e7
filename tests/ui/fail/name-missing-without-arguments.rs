use idempotent_runtime::{Error, idempotent};

struct Orders;

impl Orders {
    #[idempotent]
    async fn create_order(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

fn main() {
    drop(Orders.create_order(1));
}
