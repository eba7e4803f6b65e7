use idempotent_runtime::{Error, idempotent};

pub struct StatusCode(u16);

#[idempotent(key = "id", mode = "strong")]
async fn create(id: u64) -> Result<(StatusCode, String), Error> {
    Ok((StatusCode(201), id.to_string()))
}

fn main() {}
