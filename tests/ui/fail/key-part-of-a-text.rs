use idempotent_runtime::{Error, idempotent};

struct Request {
    id: String,
    first: String,
    last: String,
}

#[idempotent(key = "req.id.split(':').next()")]
async fn create(req: Request) -> Result<usize, Error> {
    Ok(req.id.len())
}

#[idempotent(key = req.first + &req.last)]
async fn create_for_name(req: Request) -> Result<usize, Error> {
    Ok(req.first.len() + req.last.len())
}

#[idempotent(key = digest(req.id))]
async fn create_for_digest(req: Request) -> Result<usize, Error> {
    Ok(req.id.len())
}

fn digest(text: String) -> usize {
    text.len()
}

fn main() {}
