use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(pay: Pending => Paid)]
struct Order {
    id: u64,
}

fn main() {}
