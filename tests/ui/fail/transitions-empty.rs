use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions()]
enum OrderStatus {
    Pending,
    Paid,
}

fn main() {}
