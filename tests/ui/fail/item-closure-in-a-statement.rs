use idempotent_runtime::{Error, idempotent};

async fn outer() {
    #[idempotent(key = "id", mode = "strong")]
    let create = async |id: u64| -> Result<u64, Error> { Ok(id) };
    let _ = create(1).await;
}

fn main() {}
