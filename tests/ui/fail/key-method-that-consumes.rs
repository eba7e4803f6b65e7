use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
    token: Token,
}

struct Token(u64);

impl Token {
    fn consume(self) -> u64 {
        self.0
    }
}

#[idempotent(key = "req.token.consume()")]
async fn create(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

fn main() {}
