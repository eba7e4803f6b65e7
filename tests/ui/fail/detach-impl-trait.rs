use idempotent_runtime::{Error, idempotent};

trait Job {
    fn run(&self) -> u64;
}

#[idempotent(key = "id", mode = "strong", detach)]
async fn work(id: u64, job: impl Job) -> Result<u64, Error> {
    Ok(id + job.run())
}

fn main() {}
