use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong")]
async fn tags(id: u64) -> Result<Vec<&'static str>, Error> {
    let _ = id;
    Ok(vec!["a"])
}

fn main() {}
