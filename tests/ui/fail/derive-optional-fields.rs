use idempotent_runtime::KeyPart;

struct Item {
    article: u64,
}

#[derive(KeyPart)]
struct Order {
    price: Option<f64>,
    first: Option<Item>,
    #[key_part(display)]
    second: Option<Item>,
    all: Option<Vec<Item>>,
}

fn main() {
    let _ = Item { article: 1 }.article;
}
