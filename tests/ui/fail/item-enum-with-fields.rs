use idempotent_runtime::idempotent;

#[idempotent(key = "order_id")]
enum Command {
    Place { order_id: u64 },
    Stop,
}

fn main() {
    let _ = [Command::Place { order_id: 1 }, Command::Stop];
}
