#![deny(warnings)]

use async_trait::async_trait;
use idempotent_runtime::{Error, idempotent};

struct Json<T>(T);

struct Request {
    id: u64,
    notes: Vec<String>,
}

#[async_trait]
trait Create {
    async fn create(&self, id: u64) -> Result<u64, Error>;

    async fn extract(&mut self, req: Json<Request>, text: &str) -> Result<Vec<String>, Error>;

    async fn consume(self, mut ids: Vec<u64>) -> Result<Vec<u64>, Error>;

    #[idempotent(name = "orders.create_default", key = "id", mode = "strong")]
    async fn create_default(&self, id: u64) -> Result<u64, Error> {
        self.create(id).await
    }
}

#[derive(Clone)]
struct Orders {
    tenant: String,
}

#[async_trait]
impl Create for Orders {
    #[idempotent(name = "orders.create", key = "{self.tenant}:{id}", mode = "strong")]
    async fn create(&self, id: u64) -> Result<u64, Error> {
        Ok(id + self.tenant.len() as u64)
    }

    #[idempotent(name = "orders.extract", key = "(self.tenant, req.id, text)", mode = "reject")]
    async fn extract(
        &mut self,
        Json(mut req): Json<Request>,
        text: &str,
    ) -> Result<Vec<String>, Error> {
        self.tenant.push_str(text);
        req.notes.push(self.tenant.clone());
        Ok(req.notes)
    }

    #[idempotent(name = "orders.consume", key = "ids.first()?", scope = "self.tenant")]
    async fn consume(self, mut ids: Vec<u64>) -> Result<Vec<u64>, Error> {
        ids.push(self.tenant.len() as u64);
        Ok(ids)
    }
}

#[async_trait(?Send)]
trait Local {
    async fn local(&self, id: u64) -> Result<(), Error>;
}

#[async_trait(?Send)]
impl Local for Orders {
    #[idempotent(name = "orders.local", key = id)]
    async fn local(&self, id: u64) -> Result<(), Error> {
        let _ = (id, std::rc::Rc::new(1));
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    let mut orders = Orders { tenant: "acme".to_owned() };
    assert_eq!(orders.create(1).await.unwrap(), 5);
    assert_eq!(orders.create(1).await.unwrap(), 5);
    assert_eq!(orders.create_default(2).await.unwrap(), 6);
    let request = Json(Request { id: 1, notes: Vec::new() });
    assert_eq!(orders.extract(request, "!").await.unwrap(), ["acme!"]);
    orders.local(1).await.unwrap();
    assert_eq!(orders.consume(vec![1]).await.unwrap(), [1, 5]);
}
