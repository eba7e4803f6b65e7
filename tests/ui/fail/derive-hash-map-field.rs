use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Order {
    id: u64,
    tags: std::collections::HashMap<String, String>,
}

fn main() {}
