use idempotent_runtime::{Error, KeyPart, idempotent};

fn cents(price: &f64) -> u64 {
    (price * 100.0).round() as u64
}

#[derive(KeyPart)]
struct Offer {
    article: u64,
    #[key_part(with = "cents")]
    price: f64,
}

#[idempotent(key = "offer", mode = "strong")]
async fn accept(offer: Offer) -> Result<u64, Error> {
    Ok(offer.article)
}

fn main() {}
