use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Payment {
    order: u64,
    #[key_part(skp)]
    amount: f64,
}

fn main() {}
