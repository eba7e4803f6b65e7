//! The future is `Send` whenever that of the bare function is, whatever lifetimes its types
//! mention.
#![deny(warnings)]

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt::Display;
use std::time::Duration;

use idempotent_runtime::{Error, Idempotency, idempotent};
use serde::{Deserialize, Serialize};

type BoxError = Box<dyn StdError + Send + Sync>;
type Text = Cow<'static, str>;

#[derive(Debug, Serialize, Deserialize)]
struct Refusal(Cow<'static, str>);

impl Refusal {
    fn is_final(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(error.to_string().into())
    }
}

fn count(_: &Cow<'static, str>) {}

fn retention(_: &Cow<'_, str>) -> Duration {
    Duration::from_secs(60)
}

#[idempotent(key = "id", mode = "strong")]
async fn boxed_error(id: u64) -> Result<u64, Box<dyn StdError + Send + Sync>> {
    Ok(id)
}

#[idempotent(key = "id")]
async fn aliased_error(id: u64) -> Result<(), BoxError> {
    tokio::task::yield_now().await;
    let _ = id;
    Ok(())
}

#[idempotent(key = "id", mode = "reject")]
async fn static_text(id: u64) -> Result<&'static str, BoxError> {
    Ok(if id == 0 { "zero" } else { "more" })
}

#[idempotent(key = "id", mode = "strong")]
async fn cow(id: u64) -> Result<Cow<'static, str>, Error> {
    Ok(Cow::Owned(id.to_string()))
}

#[idempotent(key = "id", mode = "reject")]
async fn opaque(id: u64) -> Result<impl Display + Send, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "window", expire = "5s")]
async fn opaque_text(id: &'static str) -> Result<impl AsRef<str> + Send, BoxError> {
    Ok(id)
}

#[idempotent(key = "name", mode = "reject")]
async fn borrowed(name: &str) -> Result<&str, Error> {
    tokio::task::yield_now().await;
    Ok(name)
}

#[idempotent(key = "name", mode = "window", expire = "5s")]
async fn borrowed_of_two<'a>(name: &'a str, other: &str) -> Result<Cow<'a, str>, BoxError> {
    Ok(if other.is_empty() { name.into() } else { other.to_owned().into() })
}

#[idempotent(key = "id", mode = "reject")]
async fn function(id: u64) -> Result<fn(&str) -> &str, Error> {
    let _ = id;
    Ok(str::trim)
}

#[idempotent(key = "id", mode = "reject")]
async fn object(id: u64) -> Result<Box<dyn for<'a> Fn(&'a str) -> &'a str + Send>, Error> {
    let _ = id;
    Ok(Box::new(str::trim))
}

#[idempotent(key = "id", mode = "strong", on_replay = count, expire_with = retention)]
async fn hooks(id: u64) -> Result<Text, BoxError> {
    Ok(id.to_string().into())
}

#[idempotent(key = "id", mode = "strong", final_errors = Refusal::is_final)]
async fn final_errors(id: u64) -> Result<Text, Refusal> {
    Ok(id.to_string().into())
}

#[idempotent(key = "id", mode = "strong", on_replay = count, detach)]
async fn detached(id: u64) -> Result<Text, BoxError> {
    tokio::task::yield_now().await;
    Ok(id.to_string().into())
}

#[idempotent(key = "id", mode = "strong", detach, with = idem)]
async fn detached_with(idem: Idempotency, id: u64) -> Result<Text, BoxError> {
    Ok(id.to_string().into())
}

#[idempotent(key = "id", mode = "strong", with = idem)]
async fn with(idem: &Idempotency, id: u64) -> Result<Text, BoxError> {
    let _ = idem;
    Ok(id.to_string().into())
}

#[idempotent(key = "id", scope = "tenant", fingerprint = "(tenant, id)")]
async fn every_part(tenant: &str, id: u64) -> Result<Option<Text>, BoxError> {
    Ok((id > 0).then(|| tenant.to_owned().into()))
}

#[idempotent(key = "id", mode = "reject")]
async fn generic<'a, T: Send + 'a, E: From<Error> + Send>(id: u64, value: T) -> Result<T, E> {
    let _ = id;
    Ok(value)
}

struct Names<'a> {
    first: &'a str,
}

impl<'a> Names<'a> {
    #[idempotent(name = "names.first", key = "self.first", mode = "reject")]
    async fn first(&self) -> Result<&'a str, BoxError> {
        Ok(self.first)
    }

    #[idempotent(name = "names.elided", key = "id", mode = "reject")]
    async fn elided(&self, id: u64) -> Result<&str, Error> {
        let _ = id;
        Ok(self.first)
    }
}

async fn spawn<F>(future: F) -> F::Output
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    tokio::spawn(future).await.unwrap()
}

fn send<F: Future + Send>(future: F) -> F {
    future
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(spawn(boxed_error(1)).await.unwrap(), 1);
    spawn(aliased_error(1)).await.unwrap();
    assert_eq!(spawn(static_text(1)).await.unwrap(), "more");
    assert_eq!(spawn(cow(1)).await.unwrap(), "1");
    assert_eq!(spawn(cow(1)).await.unwrap(), "1");
    assert_eq!(spawn(opaque(1)).await.unwrap().to_string(), "1");
    assert_eq!(spawn(opaque_text("a")).await.unwrap().as_ref(), "a");
    assert_eq!(send(borrowed("ada")).await.unwrap(), "ada");
    assert_eq!(spawn(borrowed("bob")).await.unwrap(), "bob");
    assert_eq!(send(borrowed_of_two("ada", &String::new())).await.unwrap(), "ada");
    assert_eq!(spawn(function(1)).await.unwrap()(" a "), "a");
    assert_eq!(spawn(object(1)).await.unwrap()(" a "), "a");
    assert_eq!(spawn(hooks(1)).await.unwrap(), "1");
    assert_eq!(spawn(hooks(1)).await.unwrap(), "1");
    assert_eq!(spawn(final_errors(1)).await.unwrap(), "1");
    assert_eq!(spawn(detached(1)).await.unwrap(), "1");
    let idem = Idempotency::in_memory().unwrap();
    assert_eq!(send(with(&idem, 1)).await.unwrap(), "1");
    assert_eq!(spawn(detached_with(idem, 1)).await.unwrap(), "1");
    assert_eq!(spawn(every_part("acme", 1)).await.unwrap().unwrap(), "acme");
    assert_eq!(spawn(generic::<_, BoxError>(1, "a")).await.unwrap(), "a");
    let ada = "ada".to_owned();
    let names = Names { first: &ada };
    assert_eq!(send(names.first()).await.unwrap(), "ada");
    assert_eq!(send(names.elided(1)).await.unwrap(), "ada");
}
