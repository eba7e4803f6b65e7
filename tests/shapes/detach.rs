#![deny(warnings)]

use std::sync::Arc;

use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "id", mode = "strong", detach)]
async fn create(id: u64, text: &'static str, visit: fn(&str) -> usize) -> Result<usize, Error> {
    Ok(id as usize + visit(text))
}

struct Orders {
    tenant: String,
}

impl Orders {
    #[idempotent(name = "orders.create", key = "(self.tenant, id)", mode = "reject", detach)]
    async fn create(self: Arc<Self>, id: u64) -> Result<String, Error> {
        Ok(format!("{}{id}", self.tenant))
    }
}

#[idempotent(key = "id", mode = "window", expire = "5s", detach = true)]
async fn window(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", detach = false)]
async fn attached(id: &str) -> Result<usize, Error> {
    Ok(id.len())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(create(1, "ab", str::len).await.unwrap(), 3);
    let orders = Arc::new(Orders { tenant: "acme".to_owned() });
    assert_eq!(orders.create(1).await.unwrap(), "acme1");
    assert_eq!(window(1).await.unwrap(), 1);
    assert_eq!(attached("abc").await.unwrap(), 3);
}
