use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "'nightly'")]
async fn report(day: u32) -> Result<u32, Error> {
    Ok(day)
}

#[idempotent(key = "'day:' + day")]
async fn report_of_day(day: u32) -> Result<u32, Error> {
    Ok(day)
}

fn main() {}
