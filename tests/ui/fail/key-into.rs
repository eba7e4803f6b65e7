use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

impl Request {
    fn into_id(self) -> u64 {
        self.id
    }
}

#[idempotent(key = "req.into_id()")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
