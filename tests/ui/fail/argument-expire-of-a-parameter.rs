use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong", expire = seconds)]
async fn quote(id: u64, seconds: u32) -> Result<String, Error> {
    Ok(format!("{id} {seconds}"))
}

fn main() {}
