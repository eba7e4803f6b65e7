use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(pay: Pending, ship: Paid =>, cancel, lose: => Paid)]
enum OrderStatus {
    Pending,
    Paid,
}

fn main() {
    let _ = (OrderStatus::pay(), OrderStatus::ship(), OrderStatus::cancel());
}
