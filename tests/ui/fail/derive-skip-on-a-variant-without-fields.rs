use idempotent_runtime::{Error, KeyPart, idempotent};

#[derive(KeyPart)]
enum Source {
    Web,
    Mobile,
    #[key_part(skip)]
    Unknown,
}

#[idempotent(key = "(source, id)", mode = "strong")]
async fn track(source: Source, id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
