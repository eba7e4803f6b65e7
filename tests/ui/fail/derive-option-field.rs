use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Payment {
    order: u64,
    reference: Option<String>,
}

fn main() {}
