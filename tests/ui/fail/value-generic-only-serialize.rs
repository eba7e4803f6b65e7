use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id")]
async fn store<V: serde::Serialize>(id: u64, value: V) -> Result<V, Error> {
    println!("{id}");
    Ok(value)
}

fn main() {}
