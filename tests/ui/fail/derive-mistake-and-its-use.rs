use idempotent_runtime::{Error, KeyPart, idempotent};

#[derive(KeyPart)]
struct Item {
    article: u64,
    price: f64,
}

#[derive(KeyPart)]
struct Basket<T> {
    #[key_part(hidden)]
    items: Vec<T>,
}

#[idempotent(key = "id", fingerprint = "(items, basket)")]
async fn order(id: u64, items: Vec<Item>, basket: Basket<u64>) -> Result<u64, Error> {
    Ok(id + items.len() as u64 + basket.items.len() as u64)
}

fn main() {}
