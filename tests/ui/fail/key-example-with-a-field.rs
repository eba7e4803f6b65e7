use idempotent_runtime::{Error, idempotent};

struct Request {
    order_id: u64,
}

#[idempotent(key)]
async fn unknown(req: Request) -> Result<(), Error> {
    drop(req);
    Ok(())
}

#[idempotent(key)]
async fn read(req: Request) -> Result<u64, Error> {
    Ok(req.order_id)
}

#[idempotent(key)]
async fn parameter(req: Request, shop: u64) -> Result<u64, Error> {
    drop(req);
    Ok(shop)
}

fn main() {}
