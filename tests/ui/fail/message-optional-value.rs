use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
    title: Option<String>,
}

#[idempotent(key = "req.id", mode = "reject", message = "{req.title?} is already submitted")]
async fn submit(req: Request) -> Result<u64, Error> {
    println!("{:?}", req.title);
    Ok(req.id)
}

fn main() {}
