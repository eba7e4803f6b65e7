use std::rc::Rc;

use idempotent_runtime::{Error, idempotent};

struct Billing {
    fee: u64,
}

impl Billing {
    #[idempotent(name = "billing.charge", key = "id", detach)]
    async fn charge(self: Rc<Self>, id: u64) -> Result<u64, Error> {
        Ok(id + self.fee)
    }
}

#[idempotent(key = "id", detach)]
async fn charge(id: u64, billing: std::rc::Rc<Billing>) -> Result<u64, Error> {
    Ok(id + billing.fee)
}

fn main() {}
