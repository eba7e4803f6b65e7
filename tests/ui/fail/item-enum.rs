use idempotent_runtime::idempotent;

#[idempotent]
enum Order {
    New,
}

fn main() {
    let _ = Order::New;
}
