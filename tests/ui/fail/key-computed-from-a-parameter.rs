use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "address:{user}:{version + 1}")]
async fn hole(user: u64, version: u32) -> Result<u64, Error> {
    Ok(user + u64::from(version))
}

#[idempotent(key = version * 2)]
async fn whole(version: u64) -> Result<u64, Error> {
    Ok(version)
}

fn main() {}
