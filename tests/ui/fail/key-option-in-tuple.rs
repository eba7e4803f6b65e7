use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "(user, note)")]
async fn create(user: u64, note: Option<String>) -> Result<u64, Error> {
    drop(note);
    Ok(user)
}

#[idempotent(key = (user, note.unwrap_or_default()))]
async fn create_noted(user: u64, note: Option<String>) -> Result<u64, Error> {
    drop(note);
    Ok(user)
}

fn main() {}
