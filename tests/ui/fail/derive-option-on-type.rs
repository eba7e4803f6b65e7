use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
#[key_part(skip)]
struct Payment {
    order: u64,
}

fn main() {}
