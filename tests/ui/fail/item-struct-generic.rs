use idempotent_runtime::idempotent;

#[idempotent(key = "order_id")]
struct PlaceOrder<'a, T> {
    order_id: u64,
    note: &'a T,
}

fn main() {
    let order = PlaceOrder { order_id: 1, note: &"none" };
    drop((order.order_id, order.note));
}
