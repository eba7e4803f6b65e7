use idempotent_runtime::{Error, idempotent};

struct Request {
    order_id: u64,
}

macro_rules! handler {
    ($name:ident, $field:ident) => {
        #[idempotent(key = "req.$field")]
        async fn $name(req: Request) -> Result<u64, Error> {
            Ok(req.$field)
        }
    };
}

handler!(create, order_id);

fn main() {}
