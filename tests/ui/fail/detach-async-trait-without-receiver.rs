use async_trait::async_trait;
use idempotent_runtime::{Error, idempotent};

#[async_trait]
trait Payments {
    async fn charge(id: u64) -> Result<u64, Error>;
}

struct Bank;

#[async_trait]
impl Payments for Bank {
    #[idempotent(name = "bank.charge", key = "id", detach)]
    async fn charge(id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

fn main() {}
