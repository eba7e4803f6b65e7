use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(pay: Pending => Paid, ship: Paid => Shipped)]
enum OrderStatus {
    Pending,
    Paid(u64),
    Shipped { tracking: String },
}

fn main() {}
