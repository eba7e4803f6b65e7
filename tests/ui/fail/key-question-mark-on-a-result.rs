use idempotent_runtime::{Error, idempotent};

struct Request {
    item: String,
}

impl Request {
    fn number(&self) -> Result<u64, std::num::ParseIntError> {
        self.item.parse()
    }
}

#[idempotent(key = req.number()?)]
async fn create(req: Request) -> Result<usize, Error> {
    Ok(req.item.len())
}

fn main() {}
