use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(as_str: Pending => Paid, Paid: Pending => Paid)]
enum OrderStatus {
    Pending,
    Paid,
}

fn main() {}
