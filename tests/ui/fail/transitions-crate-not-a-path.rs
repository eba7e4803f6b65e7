use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(crate = 3, pay: Pending => Paid)]
enum OrderStatus {
    Pending,
    Paid,
}

fn main() {}
