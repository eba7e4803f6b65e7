//! The first answer is untouched; a repeat gets the same one, without the headers of one exchange.

use crate::bench::{Bench, both};
use crate::client::send;
use crate::server::{Run, number};
use axum::body::Body;
use axum::response::Response;
use http::{HeaderName, StatusCode};
use idempotent_http::{IdempotencyLayer, header};
use idempotent_runtime::store::MemoryStore;
use idempotent_runtime::testing::{FaultStore, Verb};
use idempotent_runtime::{Config, Idempotency, ReplayCache};

#[tokio::test]
async fn a_repeat_gets_the_first_answer_and_the_handler_runs_once() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        let first = server.post_body("/orders", "k", "x").await;
        first.is_first(200, "run 1");
        for _ in 0..3 {
            let again = server.post_body("/orders", "k", "x").await;
            again.is_replay_of(&first);
            assert_eq!(again.header("content-length"), Some("5"));
        }
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn a_repeat_is_answered_from_the_cache_of_the_process_if_it_has_one() {
    let bench = Bench::memory(Config::new());
    let store = FaultStore::new(MemoryStore::new()).telling();
    let builder = Idempotency::builder().store(store.clone());
    let idem = builder.replay_cache(ReplayCache::new()).build().unwrap();
    let server = bench.serve(IdempotencyLayer::new(&idem, "shop"), number).await;
    let first = server.post_body("/orders", "k", "x").await;
    first.is_first(200, "run 1");
    for _ in 0..3 {
        server.post_body("/orders", "k", "x").await.is_replay_of(&first);
    }
    assert_eq!((store.calls(Verb::Begin), bench.runs()), (1, 1));
    server.post_body("/orders", "k", "another").await.is_problem(422, "payload-mismatch");
    assert_eq!((store.calls(Verb::Begin), bench.runs()), (2, 1));
}

const REPLAYED: &[(&str, &str)] = &[
    ("content-type", "application/vnd.order+json"),
    ("content-encoding", "br"),
    ("content-language", "de"),
    ("etag", "\"v1\""),
    ("last-modified", "Mon, 02 Nov 2026 10:00:00 GMT"),
    ("cache-control", "private"),
    ("location", "/orders/1"),
    ("link", "</orders?page=2>; rel=next"),
    ("link", "</orders?page=9>; rel=last"),
    ("vary", "accept"),
    ("vary", "origin"),
    ("x-order", "1"),
];

const NOT_REPLAYED: &[(&str, &str)] = &[
    ("set-cookie", "session=1"),
    ("set-cookie", "theme=dark"),
    ("www-authenticate", "Basic"),
    ("proxy-authenticate", "Basic"),
    ("authentication-info", "nextnonce=1"),
    ("authorization", "Bearer 1"),
    ("proxy-authorization", "Basic 1"),
    ("x-csrf-token", "1"),
    ("x-xsrf-token", "1"),
    ("csrf-token", "1"),
    ("date", "Mon, 02 Nov 2026 10:00:00 GMT"),
    ("age", "7"),
    ("via", "1.1 inner"),
    ("proxy-status", "inner; error=none"),
    ("connection", "x-of-this-connection"),
    ("x-of-this-connection", "1"),
    ("keep-alive", "timeout=5"),
    ("x-request-id", "7"),
    ("request-id", "7"),
    ("x-correlation-id", "7"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("tracestate", "a=1"),
    ("traceresponse", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("x-b3-traceid", "7"),
    ("x-cloud-trace-context", "7"),
    ("x-datadog-trace-id", "7"),
    ("x-datadog-parent-id", "7"),
    ("sentry-trace", "7"),
    ("baggage", "a=1"),
    ("uber-trace-id", "7"),
    ("cf-ray", "7"),
    ("x-vercel-id", "7"),
    ("server-timing", "db;dur=5"),
    ("ratelimit", "limit=10"),
    ("ratelimit-remaining", "3"),
    ("x-ratelimit-remaining", "3"),
    ("x-rate-limit-reset", "3"),
];

async fn with_headers(_: Run) -> Response {
    let all = REPLAYED.iter().chain(NOT_REPLAYED);
    let response = all.fold(Response::builder(), |it, (name, value)| it.header(*name, *value));
    response.status(201).body(Body::from("made")).unwrap()
}

#[tokio::test]
async fn headers_are_replayed_in_order_without_those_of_one_exchange() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), with_headers).await;
        let first = server.post("/orders", "k").await;
        let again = server.post("/orders", "k").await;
        again.is_replay_of(&first);
        let values = |of: &[(&str, &str)], name: &str| -> Vec<String> {
            let named = of.iter().filter(|(other, _)| *other == name);
            named.map(|(_, value)| (*value).to_owned()).collect()
        };
        for (name, _) in REPLAYED {
            assert_eq!(first.all(name), values(REPLAYED, name), "{name} at first");
            assert_eq!(again.all(name), values(REPLAYED, name), "{name} replayed");
        }
        for (name, value) in NOT_REPLAYED {
            assert_eq!(first.all(name), values(NOT_REPLAYED, name), "{name} at first");
            assert!(!again.all(name).contains(value), "{name} is replayed");
        }
        // A replay is an exchange of its own, and has a date of its own.
        assert_eq!(again.all("date").len(), 1);
    }
}

#[tokio::test]
async fn the_headers_that_are_replayed_can_be_chosen() {
    let name = HeaderName::from_static;
    for bench in both().await {
        let layer = bench
            .layer()
            .replay_header(name("x-request-id"))
            .replay_header(name("ratelimit"))
            .replay_header(name("x-of-this-connection"))
            .never_replay_header(name("x-order"))
            .never_replay_header(name("link"));
        let server = bench.serve(layer, with_headers).await;
        let first = server.post("/orders", "k").await;
        assert_eq!((first.header("x-order"), first.all("link").len()), (Some("1"), 2));
        let again = server.post("/orders", "k").await;
        again.is_replay_of(&first);
        assert_eq!(again.header("x-request-id"), Some("7"));
        assert_eq!(again.header("ratelimit"), Some("limit=10"));
        assert_eq!(again.header("location"), Some("/orders/1"));
        for name in ["x-order", "link", "x-of-this-connection", "set-cookie", "request-id"] {
            assert_eq!(again.header(name), None, "{name}");
        }
    }
}

/// Scripts of other origins see only the headers that the service names to browsers.
#[tokio::test]
async fn the_headers_of_the_layer_have_public_names() {
    for bench in both().await {
        let server = bench.serve(bench.layer().max_response_bytes(1), number).await;
        let post = async |key: &str| {
            let key = key.to_owned();
            send(server.request(http::Method::POST, "/orders").header(header::IDEMPOTENCY_KEY, key))
                .await
        };
        let first = post("k").await;
        assert_eq!(first.headers[header::IDEMPOTENT_STORED], "false");
        let again = post("k").await;
        assert_eq!(again.headers[header::IDEMPOTENCY_PROBLEM], "result-not-retained");
        let server = bench.serve(bench.layer(), number).await;
        server.post("/other", "k").await;
        assert_eq!(server.post("/other", "k").await.headers[header::IDEMPOTENT_REPLAYED], "true");
    }
}

#[tokio::test]
async fn bodies_and_statuses_are_exact() {
    const BINARY: &[u8] = &[0, 255, 13, 10, 13, 10, 0, 128];
    let answers: [fn() -> Response; 4] = [
        || Response::new(Body::from(BINARY)),
        || Response::builder().status(204).body(Body::empty()).unwrap(),
        || {
            let see_other = Response::builder().status(303).header("location", "/orders/1");
            see_other.body(Body::from("see there")).unwrap()
        },
        || Response::builder().status(202).body(Body::from(vec![7; 200_000])).unwrap(),
    ];
    for bench in both().await {
        for (index, answer) in answers.into_iter().enumerate() {
            let server = bench.serve(bench.layer(), move |_| async move { answer() }).await;
            let key = index.to_string();
            let first = server.post("/orders", &key).await;
            assert_eq!(first.status, answer().status());
            let again = server.post("/orders", &key).await;
            again.is_replay_of(&first);
            assert_eq!(again.header("location"), first.header("location"));
            if first.status == StatusCode::NO_CONTENT {
                assert_eq!(again.header("content-length"), None);
            }
        }
        assert_eq!(bench.runs(), answers.len());
    }
}

#[tokio::test]
async fn a_request_with_other_headers_is_the_same_request() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        let request = || server.keyed("/orders", "k").body("x");
        let first = send(request().header("user-agent", "one").header("accept", "a/b")).await;
        send(request().header("user-agent", "two").header("cookie", "c=1"))
            .await
            .is_replay_of(&first);
        assert_eq!(bench.runs(), 1);
    }
}
