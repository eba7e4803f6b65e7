use idempotent_runtime::idempotent;

#[idempotent(key = "id")]
async fn create(id: u64) {
    drop(id);
}

fn main() {}
