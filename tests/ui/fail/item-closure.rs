use idempotent_runtime::{Error, idempotent};

async fn run() -> Result<(), Error> {
    let send = #[idempotent(key = "id")]
    async |id: u64| -> Result<(), Error> { Ok(drop(id)) };
    send(1).await
}

fn main() {}
