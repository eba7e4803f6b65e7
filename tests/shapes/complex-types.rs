#![deny(warnings)]
#![deny(clippy::all)]

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use idempotent_runtime::{Error, idempotent};

type Table = BTreeMap<String, Vec<(u64, Option<Box<str>>)>>;

#[idempotent(key = "(id, names)", mode = "strong")]
async fn table(id: u64, names: &[&str]) -> Result<Table, Error> {
    let rows = names.iter().map(|name| (name.to_string(), vec![(id, None)]));
    Ok(rows.collect())
}

fn boxed<'a>(id: &'a u64) -> Pin<Box<dyn Future<Output = Result<Table, Error>> + Send + 'a>> {
    Box::pin(table(*id, &["a"]))
}

async fn is_send<T>(future: impl Future<Output = T> + Send) -> T {
    future.await
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(is_send(table(1, &["a"])).await.unwrap().len(), 1);
    assert_eq!(boxed(&1).await.unwrap().len(), 1);
}
