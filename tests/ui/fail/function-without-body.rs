use idempotent_runtime::{Error, idempotent};

trait Orders {
    #[idempotent(name = "orders.create", key = "id")]
    async fn create(&self, id: u64) -> Result<u64, Error>;
}

fn main() {}
