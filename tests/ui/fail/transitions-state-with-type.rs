use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(pay: OrderStatus::Pending => "Paid")]
enum OrderStatus {
    Pending,
    Paid,
}

fn main() {}
