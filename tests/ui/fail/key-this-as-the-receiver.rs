use idempotent_runtime::{Error, idempotent};

struct Invoices {
    tenant: String,
}

impl Invoices {
    #[idempotent(name = "invoices.issue", key = "(this.tenant, number)")]
    async fn issue(&self, number: u64) -> Result<u64, Error> {
        Ok(number)
    }
}

fn main() {}
