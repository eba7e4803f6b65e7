use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id")]
async fn words(id: &str) -> Result<impl Iterator<Item = &str>, Error> {
    Ok(id.split(' '))
}

fn main() {}
