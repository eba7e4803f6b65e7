use idempotent_runtime::idempotent;

#[idempotent(key = "id")]
async fn state(id: u64) -> &'static str {
    "created"
}

fn main() {}
