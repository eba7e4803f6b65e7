use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Payment {
    order: u64,
    amount: f64,
}

fn main() {}
