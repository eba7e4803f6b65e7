use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions("pay": Pending => Paid, 2: Paid => Shipped)]
enum OrderStatus {
    Pending,
    Paid,
    Shipped,
}

fn main() {}
