use idempotent_runtime::idempotent;

#[derive(serde::Serialize, serde::Deserialize)]
struct Order {
    id: u64,
}

#[idempotent(key = "id")]
async fn create(id: u64) -> Order {
    Order { id }
}

fn main() {}
