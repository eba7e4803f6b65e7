//! The look at settings and server before the first delivery.

use super::{Stream, terms};
use idempotent_queue::redis_streams::StreamDeliveries;
use idempotent_queue::{Deliveries, PrepareError};
use std::time::Duration;
use support::events;
use support::redis::{RedisServer, free_port, installed};

async fn refusal(mut source: StreamDeliveries) -> String {
    match source.prepare(&terms()).await {
        Err(PrepareError::Refused(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn entries_that_are_claimed_too_early_are_refused() {
    let stream = Stream::shared().await;
    let text = refusal(stream.source().claim_after(Duration::from_millis(299))).await;
    assert!(text.contains("shorter than 3 heartbeats of 100ms"), "{text}");
    assert!(text.contains("help: claim_after(300ms)"), "{text}");
}

#[tokio::test]
async fn a_key_that_is_not_a_stream_is_refused() {
    for key in ["KEY", "KEY:dead", "KEY:parked"] {
        let stream = Stream::shared().await;
        let key = key.replace("KEY", &stream.name);
        let () = stream.run(&format!("SET {key} something")).await;
        let text = refusal(stream.source()).await;
        assert!(text.starts_with(&format!("the key `{key}` is a string, not a stream")), "{text}");
        assert!(text.contains(&format!("help: name another key, or look at it with TYPE {key}")));
    }
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_a_server_that_is_away_is_not() {
    let server = RedisServer::start_with(&installed(), &["--requirepass", "secret"]);
    let source = |url: String| StreamDeliveries::new(&url, "orders", "shop").unwrap();
    let text = refusal(source(server.url())).await;
    assert!(text.contains("help: redis://user:password@host"), "{text}");
    let wrong = format!("redis://:wrong@{}/", server.address());
    let text = refusal(source(wrong)).await;
    assert!(text.contains("help: check user and password"), "{text}");
    let away = source(format!("redis://127.0.0.1:{}/", free_port())).prepare(&terms()).await;
    assert!(matches!(away, Err(PrepareError::Unavailable(_))), "{away:?}");
}

#[tokio::test]
async fn a_server_that_may_evict_streams_is_warned_of() {
    let events = events::collect();
    for (policy, warnings) in [("allkeys-lru", 1), ("volatile-lru", 0), ("noeviction", 0)] {
        let arguments = ["--maxmemory", "100mb", "--maxmemory-policy", policy];
        let server = RedisServer::start_with(&installed(), &arguments);
        let stream = Stream::on(&server.url()).await;
        stream.source().prepare(&terms()).await.unwrap();
        let seen = events.take_all();
        let seen = seen.iter().filter(|event| event.message.contains("evicts streams")).count();
        assert_eq!(seen, warnings, "{policy}");
    }
}
