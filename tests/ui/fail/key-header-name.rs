use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(key = "Idempotency-Key")]
async fn charge(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = X-Request-Id)]
async fn refund(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "headers.idempotency_key")]
async fn capture(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "idempotency_key")]
async fn cancel(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "header(\"Idempotency-Key\")", scope = "X-Tenant-Id")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = headers["Idempotency-Key"])]
async fn update(req: Request, headers: std::collections::HashMap<String, String>) -> Result<u64, Error> {
    drop(headers);
    Ok(req.id)
}

#[idempotent(key = "user:{X-Request-Id}", scope = "header:X-Tenant-Id")]
async fn order(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
