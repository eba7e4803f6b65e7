use std::time::Duration;

use idempotent_runtime::{Error, idempotent};

const TAKEOVER: Duration = Duration::from_secs(20);
const LONGEST_EXPORT: Duration = Duration::from_secs(2 * 3600);

#[idempotent(key = "day", mode = "reject", lease = LONGEST_EXPORT, max_run = TAKEOVER, expire = "24h")]
async fn export(day: u32) -> Result<(), Error> {
    Ok(())
}

fn main() {}
