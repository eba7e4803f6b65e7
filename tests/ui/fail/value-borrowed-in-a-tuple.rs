use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong")]
async fn state(id: u64) -> Result<(u64, &'static str), Error> {
    Ok((id, "created"))
}

fn main() {}
