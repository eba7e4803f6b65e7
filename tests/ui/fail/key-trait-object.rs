use idempotent_runtime::{Error, idempotent};

trait Event: Send + Sync {
    fn id(&self) -> u64;
}

#[idempotent(key = "event")]
async fn handle(event: &dyn Event) -> Result<u64, Error> {
    Ok(event.id())
}

fn main() {}
