//! The first answer is untouched; a repeat gets the same one, without what belonged to one exchange.

use crate::bench::both;
use crate::client::send;
use crate::server::{Run, number};
use axum::body::Body;
use axum::response::Response;
use http::StatusCode;

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
    ("date", "Mon, 02 Nov 2026 10:00:00 GMT"),
    ("connection", "x-of-this-connection"),
    ("x-of-this-connection", "1"),
    ("keep-alive", "timeout=5"),
    ("x-request-id", "7"),
    ("request-id", "7"),
    ("x-correlation-id", "7"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("tracestate", "a=1"),
    ("x-b3-traceid", "7"),
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
