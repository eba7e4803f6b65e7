use idempotent_sql::Transitions;

#[derive(Transitions)]
enum OrderStatus {
    Pending,
    Paid,
}

fn main() {
    let _ = OrderStatus::Pending.as_str();
}
