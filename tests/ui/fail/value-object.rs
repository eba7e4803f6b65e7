use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong")]
async fn hook(id: u64) -> Result<Box<dyn Fn() + Send>, Error> {
    Ok(Box::new(|| {}))
}

fn main() {}
