#![deny(warnings)]

use std::sync::Arc;

use idempotent_runtime::{Error, Idempotency, idempotent};

struct Orders {
    idem: Idempotency,
}

impl Orders {
    #[idempotent(name = "orders.field", key = "id", mode = "strong", with = self.idem)]
    async fn field(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }

    #[idempotent(name = "orders.method", key = "id", mode = "strong", with = self.idem())]
    async fn method(&mut self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }

    fn idem(&self) -> &Idempotency {
        &self.idem
    }
}

#[idempotent(key = "id", mode = "strong", with = idem)]
async fn shared(id: u64, idem: Arc<Idempotency>) -> Result<usize, Error> {
    Ok(id as usize + Arc::strong_count(&idem))
}

#[idempotent(key = "id", mode = "strong", with = *idem)]
async fn dereferenced(id: u64, idem: &Idempotency) -> Result<u64, Error> {
    Ok(id)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    let idem = Idempotency::builder().build().unwrap();
    let mut orders = Orders { idem: idem.clone() };
    assert_eq!(orders.field(1).await.unwrap(), 1);
    assert_eq!(orders.method(1).await.unwrap(), 1);
    assert_eq!(dereferenced(1, &idem).await.unwrap(), 1);
    assert_eq!(shared(1, Arc::new(idem)).await.unwrap(), 2);
}
