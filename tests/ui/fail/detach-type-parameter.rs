use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong", detach)]
async fn upload<T: AsRef<[u8]>>(id: u64, content: T) -> Result<u64, Error> {
    Ok(id + content.as_ref().len() as u64)
}

fn main() {}
