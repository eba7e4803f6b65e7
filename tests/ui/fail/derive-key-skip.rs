use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Order {
    id: u64,
    #[key(skip)]
    amount: f64,
}

fn main() {}
