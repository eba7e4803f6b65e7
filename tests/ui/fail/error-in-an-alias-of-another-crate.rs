use idempotent_runtime::idempotent;

mod serde_json {
    pub(crate) struct Error;
    pub(crate) type Result<T> = std::result::Result<T, Error>;
}

#[idempotent(key = "id", mode = "strong")]
async fn ingest(id: u64) -> serde_json::Result<u64> {
    match id {
        0 => Err(serde_json::Error),
        id => Ok(id),
    }
}

fn main() {}
