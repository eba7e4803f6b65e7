use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(cancel: Pending, Paid => Cancelled)]
enum OrderStatus {
    Pending,
    Paid,
    Cancelled,
}

fn main() {}
