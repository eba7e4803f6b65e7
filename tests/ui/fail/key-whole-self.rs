use idempotent_runtime::{Error, idempotent};

struct Shop {
    region: String,
}

impl Shop {
    #[idempotent(name = "shop.sync", key = "self")]
    async fn sync(&self) -> Result<usize, Error> {
        Ok(self.region.len())
    }
}

fn main() {}
