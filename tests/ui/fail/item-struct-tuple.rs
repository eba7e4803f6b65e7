use idempotent_runtime::idempotent;

#[idempotent]
struct PlaceOrder(u64);

fn main() {
    let _ = PlaceOrder(1).0;
}
