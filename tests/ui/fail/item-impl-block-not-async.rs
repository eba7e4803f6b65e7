use idempotent_runtime::{Error, idempotent};

struct Shop;

#[idempotent]
impl Shop {
    fn new() -> Self {
        Self
    }

    fn place(&self, order_id: u64) -> Result<u64, Error> {
        Ok(order_id)
    }
}

fn main() {
    drop(Shop::new().place(1));
}
