use idempotent_sql::StateMachine;

enum OrderStatus {
    Pending,
}

fn main() {
    let _ = OrderStatus::Pending;
    let _ = StateMachine::<OrderStatus>::new("orders", "id", "status");
}
