use idempotent_runtime::{Error, Idempotency, idempotent};

struct State<T>(T);

struct Services {
    idempotency: Idempotency,
}

#[idempotent(key = "id", with = state.idempotency)]
async fn create(State(services): State<Services>, id: u64) -> Result<u64, Error> {
    drop(services);
    Ok(id)
}

fn main() {}
