use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(return: Shipped => Returned, self: Returned => Shipped)]
enum OrderStatus {
    Shipped,
    Returned,
}

fn main() {}
