use idempotent_runtime::{Error, idempotent};

struct Request {
    order: u64,
    line_id: u64,
}

#[idempotent(key = "")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.order + req.line_id)
}

#[idempotent(key = "")]
async fn forward(req: Request) -> Result<u64, Error> {
    inner(req)
}

fn inner(req: Request) -> Result<u64, Error> {
    Ok(req.order + req.line_id)
}

fn main() {}
