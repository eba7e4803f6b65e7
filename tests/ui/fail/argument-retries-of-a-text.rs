use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "task", mode = "reject", max_retries = 3)]
async fn resize(task: String, width: u32) -> Result<u32, Error> {
    drop(task);
    Ok(width)
}

fn main() {}
