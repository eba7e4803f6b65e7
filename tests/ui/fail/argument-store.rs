use idempotent_runtime::{Error, Idempotency, idempotent};

struct State {
    idempotency: Idempotency,
}

#[idempotent(key = "id", store = state.idempotency)]
async fn path(state: &State, id: u64) -> Result<u64, Error> {
    let _ = state;
    Ok(id)
}

#[idempotent(key = "id", store = "redis://127.0.0.1/")]
async fn url(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", store = REDIS, with = state.idempotency)]
async fn beside_an_instance(state: &State, id: u64) -> Result<u64, Error> {
    let _ = state;
    Ok(id)
}

fn main() {}
