use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(pay: Pending => Paid, ship: Paid => Shipped, lose: Shipped => Lost, find: Lost => Found)]
enum OrderStatus {
    #[transitions(rename = "")]
    Pending,
    #[transitions(rename = "it's paid")]
    Paid,
    #[transitions(rename = 3)]
    Shipped,
    #[transitions(renam = "gone")]
    Lost,
    #[transitions(rename = "a", rename = "b")]
    Found,
}

fn main() {}
