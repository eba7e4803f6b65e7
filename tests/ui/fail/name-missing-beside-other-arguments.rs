use idempotent_runtime::{Error, Idempotency, idempotent};

struct Orders {
    idempotency: Idempotency,
}

impl Orders {
    #[idempotent(
        key = "(user, id)",
        mode = "strong",
        expire = "5m",
        with = self.idempotency,
    )]
    async fn create_order(&self, user: u64, id: u64) -> Result<u64, Error> {
        Ok(user + id)
    }
}

fn main() {}
