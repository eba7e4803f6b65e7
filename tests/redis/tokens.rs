//! One-time tokens on real servers.

use idempotent_runtime::Idempotency;
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::tokens::{Consumed, Tokens};
use support::redis::{RedisServer, binaries};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_consume_a_token_in_two_processes_one_is_accepted() {
    for binary in binaries() {
        let server = RedisServer::start_with(&binary, &[]);
        let mut instances = Vec::new();
        for _ in 0..2 {
            let store = RedisStore::connect(&server.url()).await.unwrap();
            let idem = Idempotency::builder().store(store).build().unwrap();
            instances.push(Tokens::new(&idem).bound_to("session-1"));
        }
        for _ in 0..20 {
            let token = instances[0].issue("order").await.unwrap().to_string();
            let racers: Vec<_> = (0..32)
                .map(|racer| {
                    let (tokens, token) = (instances[racer % 2].clone(), token.clone());
                    tokio::spawn(async move { tokens.consume("order", &token).await.unwrap() })
                })
                .collect();
            let mut accepted = 0;
            for racer in racers {
                match racer.await.unwrap() {
                    Consumed::Accepted(_) => accepted += 1,
                    Consumed::Used => {}
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(accepted, 1, "{}", binary.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_told_that_an_unknown_or_expired_token_was_used() {
    for binary in binaries() {
        let server = RedisServer::start_with(&binary, &[]);
        let mut connection = server.connection().await;
        let mut instances = Vec::new();
        for _ in 0..2 {
            let store = RedisStore::connect(&server.url()).await.unwrap();
            let idem = Idempotency::builder().store(store).build().unwrap();
            instances.push(Tokens::new(&idem));
        }
        for round in 0..40 {
            let token = instances[0].issue("order").await.unwrap().to_string();
            let business_type = match round % 2 {
                0 => "refund",
                _ => {
                    // It expires.
                    let _: () = redis::cmd("FLUSHALL").query_async(&mut connection).await.unwrap();
                    "order"
                }
            };
            let racers: Vec<_> = (0..32)
                .map(|racer| {
                    let (tokens, token) = (instances[racer % 2].clone(), token.clone());
                    tokio::spawn(
                        async move { tokens.consume(business_type, &token).await.unwrap() },
                    )
                })
                .collect();
            for racer in racers {
                let told = racer.await.unwrap();
                assert!(matches!(told, Consumed::Unknown), "{business_type}: {told:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_unknown_token_leaves_nothing_behind() {
    let server = RedisServer::start();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let idem = Idempotency::builder().store(store).build().unwrap();
    let tokens = Tokens::new(&idem);
    let token = tokens.issue("order").await.unwrap().to_string();
    let other = tokens.consume("refund", &token).await.unwrap();
    assert!(matches!(other, Consumed::Unknown), "{other:?}");
    let mut connection = server.connection().await;
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
    assert_eq!(keys.len(), 1, "{keys:?}");
}
