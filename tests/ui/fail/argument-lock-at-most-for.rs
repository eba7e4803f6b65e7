use idempotent_runtime::{Error, idempotent};

#[idempotent(key = const "cleanup", lock_at_most_for = "30m", expire = "1h")]
async fn clean_up() -> Result<(), Error> {
    Ok(())
}

fn main() {}
