use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(pay: Pending => Paid)]
enum OrderStatus<const N: usize> {
    Pending,
    Paid,
}

fn main() {}
