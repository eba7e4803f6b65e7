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

#[idempotent(key = "id", mode = "strong", detach)]
async fn of_any_type<T, S: Send + 'static>(
    id: u64,
    text: T,
    r#type: impl AsRef<str> + Send + 'static,
    of: S,
) -> Result<usize, Error>
where
    T: AsRef<str> + Send + 'static,
{
    drop(of);
    Ok(id as usize + text.as_ref().len() + r#type.as_ref().len())
}

struct Parcel {
    item: String,
}

/// The body reads a field with the name of a parameter, which it leaves alone.
#[idempotent(key = "item.as_ref()", mode = "strong", detach)]
async fn only_in_the_key_beside_a_field<T: AsRef<str>>(
    parcel: Parcel,
    item: T,
) -> Result<usize, Error> {
    Ok(parcel.item.len())
}

/// The body leaves its parameters alone, and one of them has a namesake there.
#[idempotent(key = "(text.as_ref(), more.as_ref())", mode = "strong", detach)]
async fn only_in_the_key<T: AsRef<str>>(text: T, more: impl AsRef<str>) -> Result<usize, Error> {
    let text = "abc";
    Ok(text.len())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(create(1, "ab", str::len).await.unwrap(), 3);
    let orders = Arc::new(Orders { tenant: "acme".to_owned() });
    assert_eq!(orders.create(1).await.unwrap(), "acme1");
    assert_eq!(of_any_type(1, "ab", "c", 0).await.unwrap(), 4);
    let parcel = Parcel { item: "abc".to_owned() };
    assert_eq!(only_in_the_key_beside_a_field(parcel, "ab").await.unwrap(), 3);
    assert_eq!(only_in_the_key("ab", "c").await.unwrap(), 3);
    assert_eq!(window(1).await.unwrap(), 1);
    assert_eq!(attached("abc").await.unwrap(), 3);
}
