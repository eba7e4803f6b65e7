use idempotent_runtime::idempotent;

#[idempotent(key = "id", detach)]
async fn create(id: u64) -> u64 {
    id
}

fn main() {}
