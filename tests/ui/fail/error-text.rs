use idempotent_runtime::idempotent;

#[idempotent(key = "id")]
async fn create(id: u64) -> Result<u64, &'static str> {
    Err("not yet")
}

fn main() {
    drop(create(1));
}
