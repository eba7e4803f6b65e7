use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

impl Request {
    async fn load_id(&self) -> u64 {
        self.id
    }
}

#[idempotent(key = req.load_id())]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
