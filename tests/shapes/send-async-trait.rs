//! `#[async_trait]` asks for `Send` futures, and gets them whatever lifetimes their types mention.
#![deny(warnings)]

use std::borrow::Cow;
use std::error::Error as StdError;
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::{Error, Idempotency, idempotent};

type BoxError = Box<dyn StdError + Send + Sync>;

#[async_trait]
trait Shop {
    async fn boxed_error(&self, id: u64) -> Result<u64, Box<dyn StdError + Send + Sync>>;

    async fn static_text(&self, id: u64) -> Result<&'static str, Error>;

    async fn cow(&self, id: u64) -> Result<Cow<'static, str>, BoxError>;

    async fn borrowed<'a>(&'a self, name: &'a str) -> Result<&'a str, BoxError>;

    async fn hooks(&self, id: u64) -> Result<Cow<'static, str>, BoxError>;

    #[idempotent(name = "shop.by_default", key = "id", mode = "strong")]
    async fn by_default(&self, id: u64) -> Result<Cow<'static, str>, BoxError> {
        Ok(id.to_string().into())
    }
}

struct Orders {
    idem: Idempotency,
}

fn count(_: &Cow<'static, str>) {}

fn retention(_: &Cow<'static, str>) -> Duration {
    Duration::from_secs(60)
}

#[async_trait]
impl Shop for Orders {
    #[idempotent(name = "shop.boxed_error", key = "id", mode = "strong", with = self.idem)]
    async fn boxed_error(&self, id: u64) -> Result<u64, Box<dyn StdError + Send + Sync>> {
        Ok(id)
    }

    #[idempotent(name = "shop.static_text", key = "id", mode = "reject")]
    async fn static_text(&self, id: u64) -> Result<&'static str, Error> {
        let _ = id;
        Ok("text")
    }

    #[idempotent(name = "shop.cow", key = "id", mode = "strong")]
    async fn cow(&self, id: u64) -> Result<Cow<'static, str>, BoxError> {
        tokio::task::yield_now().await;
        Ok(id.to_string().into())
    }

    #[idempotent(name = "shop.borrowed", key = "name", mode = "reject")]
    async fn borrowed<'a>(&'a self, name: &'a str) -> Result<&'a str, BoxError> {
        Ok(name)
    }

    #[idempotent(
        name = "shop.hooks", key = "id", mode = "strong",
        on_replay = count, expire_with = retention,
    )]
    async fn hooks(&self, id: u64) -> Result<Cow<'static, str>, BoxError> {
        Ok(id.to_string().into())
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    let orders = Orders { idem: Idempotency::in_memory().unwrap() };
    let all = tokio::spawn(async move {
        assert_eq!(orders.boxed_error(1).await.unwrap(), 1);
        assert_eq!(orders.static_text(1).await.unwrap(), "text");
        assert_eq!(orders.cow(1).await.unwrap(), "1");
        assert_eq!(orders.borrowed("ada").await.unwrap(), "ada");
        assert_eq!(orders.hooks(1).await.unwrap(), "1");
        assert_eq!(orders.by_default(1).await.unwrap(), "1");
    });
    all.await.unwrap();
}
