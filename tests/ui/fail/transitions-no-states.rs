use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(pay: Pending => Paid)]
enum OrderStatus {}

fn main() {}
