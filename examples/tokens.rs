//! How does a form survive a double click?
//!
//! ```text
//! cargo run --example tokens
//! ```
//!
//! The page carries a token. The handler exchanges it before it acts: of two clicks one gets through,
//! and its answer brings the token for the next page. The same code runs on Redis and on the memory
//! store.
#![allow(clippy::print_stdout)]

use idempotent_runtime::store::RedisStore;
use idempotent_runtime::tokens::{Exchanged, Tokens};
use idempotent_runtime::{Error, Idempotency};
use support::redis::RedisServer;

/// What a handler does with a form: `None` for a token that is not good.
async fn submit(tokens: &Tokens, token: &str) -> Result<Option<String>, Error> {
    match tokens.exchange("order", token).await? {
        Exchanged::Next(next) => Ok(Some(next.to_string())),
        Exchanged::Refused(_) => Ok(None),
    }
}

async fn show(name: &str, idem: &Idempotency) -> Result<(), Error> {
    println!("on {name}:");
    let tokens = Tokens::new(idem).bound_to("session-17");
    let token = tokens.issue("order").await?.to_string();
    println!("  the page carries {}..", &token[..8]);

    let (one, two) = tokio::join!(submit(&tokens, &token), submit(&tokens, &token));
    let answers = [one?, two?];
    assert_eq!(answers.iter().flatten().count(), 1);
    println!("  two clicks at once: one order");
    let next = answers.into_iter().flatten().next().unwrap_or_default();

    let stranger = Tokens::new(idem).bound_to("session-18");
    assert_eq!(submit(&stranger, &next).await?, None);
    println!("  another session cannot use the next token, and does not burn it");
    assert!(submit(&tokens, &next).await?.is_some());
    println!("  its own session can");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    show("the memory store", &Idempotency::in_memory()?).await?;
    let server = RedisServer::start();
    let redis = RedisStore::connect(&server.url()).await?;
    show("redis", &Idempotency::builder().store(redis).build()?).await?;
    Ok(())
}
