use idempotent_runtime::{Error, idempotent};

struct Event {
    id: u64,
    kind: String,
}

#[idempotent(key = "(event.id, event.type)")]
async fn quoted(event: Event) -> Result<u64, Error> {
    drop(event.kind);
    Ok(event.id)
}

#[idempotent(key = (event.id, event.type), message = "{event.type} is here")]
async fn bare(event: Event) -> Result<u64, Error> {
    drop(event.kind);
    Ok(event.id)
}

fn main() {}
