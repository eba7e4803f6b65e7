use idempotent_runtime::{Error, Idempotency, idempotent};

struct App {
    idempotency: Idempotency,
}

#[idempotent(key = "id", with = state.idempotency)]
async fn pay(app: &App, id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
