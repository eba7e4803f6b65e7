use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id")]
async fn create(id: u64) -> impl Future<Output = Result<u64, Error>> {
    async move { Ok(id) }
}

fn main() {}
