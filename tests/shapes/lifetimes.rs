#![deny(warnings)]

use std::borrow::Cow;

use idempotent_runtime::{Error, idempotent};

struct Names<'a> {
    first: &'a str,
}

impl<'a> Names<'a> {
    #[idempotent(name = "names.first", key = "self.first", mode = "reject")]
    async fn first(&self) -> Result<&'a str, Error> {
        Ok(self.first)
    }

    #[idempotent(name = "names.elided", key = "id", mode = "reject")]
    async fn elided(&self, id: u64) -> Result<&str, Error> {
        let _ = id;
        Ok(self.first)
    }
}

#[idempotent(key = "name", mode = "reject")]
async fn borrowed(name: &str) -> Result<&str, Error> {
    Ok(name)
}

#[idempotent(key = "id", mode = "strong")]
async fn both<'a, 'b: 'a>(id: &'a str, text: Cow<'b, str>) -> Result<String, Error> {
    Ok(format!("{id}{text}"))
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    let names = Names { first: "ada" };
    assert_eq!(names.first().await.unwrap(), "ada");
    assert_eq!(names.elided(1).await.unwrap(), "ada");
    assert_eq!(borrowed("bob").await.unwrap(), "bob");
    assert_eq!(both("a", "b".into()).await.unwrap(), "ab");
}
