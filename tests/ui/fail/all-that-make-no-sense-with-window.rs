use idempotent_runtime::{Error, idempotent};

#[idempotent(
    key = "id",
    mode = "window",
    max_run = "1h",
    bind_payload_after_failure,
    abandon = "block",
    on_unrecorded = "error",
    final_errors = is_final,
    on_replay = count,
    expire_with = retention
)]
async fn create(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
