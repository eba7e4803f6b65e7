use idempotent_runtime::{Error, idempotent};

struct Customer {
    id: u64,
}

struct Request {
    customer: Customer,
    billed: Option<Customer>,
}

#[idempotent(key = req.customer?.id)]
async fn not_an_option(req: Request) -> Result<u64, Error> {
    Ok(req.customer.id)
}

#[idempotent(key = "(req.customer.id, req.billed?.number)")]
async fn another_field(req: Request) -> Result<Option<u64>, Error> {
    Ok(req.billed.map(|billed| billed.id))
}

fn main() {}
