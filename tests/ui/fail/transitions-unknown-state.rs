use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(pay: Pendign => Paid, ship: Paid => Sent, cancel: Pending => Cancelled)]
enum OrderStatus {
    Pending,
    Paid,
    Cancelled,
}

fn main() {
    let _ = OrderStatus::pay();
    let _ = OrderStatus::ship();
}
