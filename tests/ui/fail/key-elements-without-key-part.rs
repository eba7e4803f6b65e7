use idempotent_runtime::{Error, idempotent};

struct Item {
    article: u64,
}

struct Basket {
    items: Vec<Item>,
}

#[idempotent(key = "basket.items")]
async fn order(basket: Basket) -> Result<u64, Error> {
    Ok(basket.items.iter().map(|item| item.article).sum())
}

fn main() {}
