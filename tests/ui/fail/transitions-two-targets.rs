use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(pay: Pending => Paid, pay: Pending => Shipped)]
enum OrderStatus {
    Pending,
    Paid,
    Shipped,
}

fn main() {
    let _ = OrderStatus::pay();
}
