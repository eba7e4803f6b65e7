use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
    email: String,
    note: Option<String>,
}

#[idempotent(key = "powertools_json(req).id")]
async fn create(req: Request) -> Result<u64, Error> {
    drop((req.email, req.note));
    Ok(req.id)
}

#[idempotent(key = str(lower(req.email)))]
async fn update(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "note:{lower(req.email)}")]
async fn cancel(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = (str(req.id), lower(req.email)))]
async fn refund(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "lower(req.note)?")]
async fn order(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
