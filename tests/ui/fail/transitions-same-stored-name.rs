use idempotent_sql::Transitions;

#[derive(Transitions)]
#[transitions(hold: Open => OnHold, stop: Open => Held)]
enum Ticket {
    Open,
    OnHold,
    #[transitions(rename = "on_hold")]
    Held,
}

fn main() {}
