use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "String", convert = r#"{ format!("{}:{}", user, id) }"#)]
async fn create(user: String, id: u64) -> Result<u64, Error> {
    drop(user);
    Ok(id)
}

fn main() {}
