use idempotent_runtime::{Error, idempotent};

macro_rules! create {
    ($name:ident, $key:ident) => {
        #[idempotent(key = "$key", mode = "$mode")]
        async fn $name($key: u64) -> Result<u64, Error> {
            Ok($key)
        }
    };
}

create!(create_order, order_id);

#[idempotent(key = "order:$key", expire = "$ttl")]
async fn template(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
