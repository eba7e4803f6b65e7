use idempotent_runtime::{Error, idempotent};

#[idempotent(name = concat!("billing", ".", "close"), key = "month")]
async fn close(month: u64) -> Result<u64, Error> {
    Ok(month)
}

fn main() {}
