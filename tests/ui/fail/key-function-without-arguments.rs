use idempotent_runtime::{Error, idempotent};

fn current_user() -> u64 {
    1
}

fn get_tenant() -> String {
    String::new()
}

#[idempotent(key = "current_user()")]
async fn accept(version: u32) -> Result<u64, Error> {
    Ok(u64::from(version))
}

#[idempotent(key = (get_tenant(), id))]
async fn tuple(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "{get_tenant().len()}:{id}")]
async fn template(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", scope = get_tenant())]
async fn scoped(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
