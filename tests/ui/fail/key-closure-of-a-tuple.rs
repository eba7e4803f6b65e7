use idempotent_runtime::{Error, idempotent};

struct Event {
    source: String,
    id: u64,
}

#[idempotent(key = |event: &Event| (event.source.clone(), &event.id))]
async fn handle(event: Event) -> Result<u64, Error> {
    Ok(event.id)
}

fn main() {}
