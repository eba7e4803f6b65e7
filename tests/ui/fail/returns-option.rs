use idempotent_runtime::idempotent;

#[idempotent(key = "id", mode = "reject")]
async fn create(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
