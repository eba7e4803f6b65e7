#![deny(warnings)]

use std::sync::Arc;

use idempotent_runtime::{Error, idempotent};

#[derive(Clone)]
struct Orders {
    tenant: String,
    created: Vec<u64>,
}

impl Orders {
    #[idempotent(name = "orders.look", key = "(self.tenant, id)", mode = "strong")]
    async fn look(&self, id: u64) -> Result<usize, Error> {
        Ok(self.created.len() + id as usize)
    }

    #[idempotent(name = "orders.create", key = id, scope = self.tenant, mode = "strong")]
    async fn create(&mut self, id: u64) -> Result<usize, Error> {
        self.created.push(id);
        Ok(self.created.len())
    }

    #[idempotent(name = "orders.finish", key = "self.tenant", mode = "strong")]
    async fn finish(self) -> Result<String, Error> {
        Ok(self.tenant)
    }

    #[idempotent(name = "orders.finish_mut", key = "self.tenant", mode = "strong")]
    async fn finish_mut(mut self) -> Result<usize, Error> {
        self.created.push(1);
        Ok(self.created.len())
    }

    #[idempotent(name = "orders.share", key = "self.tenant", mode = "strong")]
    async fn share(self: Arc<Self>) -> Result<usize, Error> {
        Ok(Arc::strong_count(&self))
    }

    #[idempotent(name = "orders.unbox", key = "self.tenant", mode = "strong")]
    async fn unbox(self: Box<Self>) -> Result<String, Error> {
        Ok(self.tenant)
    }

    #[idempotent(name = "orders.associated", key = "id", mode = "strong")]
    async fn associated(id: u64) -> Result<u64, Error> {
        Ok(id)
    }

    #[idempotent(name = "orders.new", key = "tenant", mode = "reject")]
    async fn new(tenant: &str) -> Result<Self, Error> {
        Ok(Self { tenant: tenant.to_owned(), created: Vec::new() })
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    let mut orders = Orders::new("acme").await.unwrap();
    assert_eq!(orders.create(1).await.unwrap(), 1);
    assert_eq!(orders.create(1).await.unwrap(), 1);
    assert_eq!(orders.create(2).await.unwrap(), 2);
    assert_eq!(orders.look(5).await.unwrap(), 7);
    assert_eq!(Arc::new(orders.clone()).share().await.unwrap(), 1);
    assert_eq!(Box::new(orders.clone()).unbox().await.unwrap(), "acme");
    assert_eq!(orders.clone().finish_mut().await.unwrap(), 3);
    assert_eq!(orders.finish().await.unwrap(), "acme");
    assert_eq!(Orders::associated(3).await.unwrap(), 3);
}
