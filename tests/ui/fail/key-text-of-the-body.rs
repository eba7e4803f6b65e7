use idempotent_runtime::{Error, idempotent};

#[idempotent(key = reference)]
async fn import(line: String) -> Result<String, Error> {
    let reference = line.split(';').next().unwrap_or("").to_owned();
    Ok(reference)
}

fn main() {}
