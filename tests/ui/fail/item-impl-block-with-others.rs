use idempotent_runtime::{Error, idempotent};

struct Shop {
    url: String,
}

#[idempotent(key = "order_id", expire = "5m")]
impl Shop {
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Ok(Self { url: url.to_owned() })
    }

    pub async fn place(&self, order_id: u64) -> Result<String, Error> {
        Ok(format!("{}/{order_id}", self.url))
    }
}

fn main() {
    drop(Shop::connect("shop"));
    drop(Shop { url: String::new() }.place(1));
}
