use idempotent_runtime::{Error, idempotent};

struct Window {
    hours: std::ops::Range<u64>,
    since: std::time::Instant,
}

#[idempotent(key = "{window.hours}")]
async fn count(window: &Window) -> Result<u64, Error> {
    Ok(window.hours.start)
}

#[idempotent(key = "window.since")]
async fn measure(window: &Window) -> Result<u64, Error> {
    Ok(window.since.elapsed().as_secs())
}

fn main() {}
