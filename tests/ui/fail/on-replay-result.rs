use idempotent_runtime::{Error, idempotent};

fn count(answer: &Result<u64, Error>) {
    println!("{}", answer.is_ok());
}

#[idempotent(key = "id", mode = "strong", on_replay = count)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
