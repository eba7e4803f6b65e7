use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Order {
    id: u64,
    #[key_part(ignore)]
    weight: u8,
}

fn main() {}
