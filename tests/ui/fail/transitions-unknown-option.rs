use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(pay: Pending => Paid, crat = my_sql, rename = "paid")]
enum OrderStatus {
    Pending,
    Paid,
}

fn main() {}
