use idempotent_runtime::KeyPart;

struct Item {
    article: u64,
}

#[derive(KeyPart)]
struct Basket {
    user: u64,
    items: Vec<Item>,
}

fn main() {}
