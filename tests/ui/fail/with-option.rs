use idempotent_runtime::{Error, Idempotency, idempotent};

struct Orders {
    idempotency: Option<Idempotency>,
}

impl Orders {
    #[idempotent(name = "orders.create", key = "id", with = self.idempotency)]
    async fn create(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

fn main() {}
