use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(pay: Pending -> Paid)]
enum OrderStatus {
    Pending,
    Paid,
}

fn main() {
    let _ = OrderStatus::pay();
}
