use idempotent_runtime::idempotent;

#[idempotent(key = "id")]
struct Order {
    id: u64,
}

fn main() {
    let _ = Order { id: 1 }.id;
}
