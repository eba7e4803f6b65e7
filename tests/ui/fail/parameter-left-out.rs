use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "(session, id)")]
async fn print(#[cfg(windows)] session: u32, id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "reject", message = "{title} exists")]
async fn message(#[cfg(windows)] title: String, id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
