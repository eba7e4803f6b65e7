use idempotent_runtime::{Error, idempotent};

struct Billing {
    tenant: u64,
}

#[idempotent(key = "(self.tenant, month)")]
async fn close(billing: &Billing, month: u64) -> Result<u64, Error> {
    Ok(billing.tenant + month)
}

#[idempotent(key = "{self.tenant}:{month}")]
async fn close_tenant(tenant: u64, month: u64) -> Result<u64, Error> {
    Ok(tenant + month)
}

fn main() {}
