use idempotent_runtime::{Error, idempotent};

macro_rules! create {
    ($name:ident, $mode:ident) => {
        #[idempotent(key = "id", mode = $mode)]
        async fn $name(id: u64) -> Result<u64, Error> {
            Ok(id)
        }
    };
}

create!(create_order, strong);

fn main() {}
