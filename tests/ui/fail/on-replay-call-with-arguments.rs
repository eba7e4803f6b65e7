use idempotent_runtime::{Error, idempotent};

fn log_replay(log: &'static str) -> impl Fn(&u64) {
    move |id| println!("{log} {id}")
}

#[idempotent(key = "id", mode = "strong", on_replay = log_replay("ledger"))]
async fn pay(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
