use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
}

impl Request {
    fn next(&mut self) -> u64 {
        self.id += 1;
        self.id
    }
}

#[idempotent(key = "req.next()")]
async fn create(mut req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
