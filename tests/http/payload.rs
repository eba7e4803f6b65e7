//! Payloads, which must not change under one key.

use crate::bench::both;
use crate::client::{Reply, send};
use crate::server::{Gate, Run, Server, held, number};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use idempotent_http::Payload;
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::protocol::Forgotten;
use std::time::Duration;
use support::until;

/// The outcome of a repeat.
#[derive(Debug, PartialEq)]
enum Repeat {
    Replayed,
    Refused,
}

async fn repeat(server: &Server, key: &str, path: &str, body: &'static str) -> Repeat {
    let reply = server.post_body(path, key, body).await;
    if reply.is_replay() {
        return Repeat::Replayed;
    }
    reply.is_problem(422, ProblemType::PAYLOAD_MISMATCH.code());
    Repeat::Refused
}

#[tokio::test]
async fn another_body_or_query_under_a_key_that_is_done_is_refused() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        let first = server.post_body("/orders?a=1", "k", "x").await;
        first.is_first(200, "run 1");
        for (path, body) in
            [("/orders?a=1", "y"), ("/orders?a=1", ""), ("/orders?a=2", "x"), ("/orders", "x")]
        {
            assert_eq!(repeat(&server, "k", path, body).await, Repeat::Refused, "{path} {body}");
        }
        // A refusal is not stored.
        server.post_body("/orders?a=1", "k", "x").await.is_replay_of(&first);
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn another_body_or_query_is_refused_while_the_first_is_in_flight() {
    for bench in both().await {
        let gate = Gate::shut();
        let server = bench.serve(bench.layer(), held(&gate)).await;
        let first = tokio::spawn(send(server.keyed("/orders", "k").body("x")));
        until(|| bench.runs() == 1).await;
        for (path, body) in [("/orders", "y"), ("/orders?a=1", "x")] {
            assert_eq!(repeat(&server, "k", path, body).await, Repeat::Refused, "{path} {body}");
        }
        gate.admit(1);
        first.await.unwrap().is_first(200, "run 1");
        assert_eq!(bench.runs(), 1);
    }
}

/// Answers 503 to the first two requests, and 200 to all others.
async fn busy_at_first(run: Run) -> Response {
    let status = if run.number <= 2 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (status, format!("run {}", run.number)).into_response()
}

#[tokio::test]
async fn after_a_server_error_another_body_or_query_runs() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), busy_at_first).await;
        server.post_body("/orders", "k", "x").await.is_first(503, "run 1");
        server.post_body("/orders", "k", "y").await.is_first(503, "run 2");
        let third = server.post_body("/orders?a=1", "k", "z").await;
        third.is_first(200, "run 3");
        assert_eq!(repeat(&server, "k", "/orders", "y").await, Repeat::Refused);
        server.post_body("/orders?a=1", "k", "z").await.is_replay_of(&third);
        assert_eq!(bench.runs(), 3);
    }
}

#[tokio::test]
async fn after_a_server_error_another_body_or_query_is_refused_where_payloads_stay_bound() {
    for bench in both().await {
        let server = bench.serve(bench.layer().bind_payload_after_failure(), busy_at_first).await;
        for number in 1..=2 {
            server.post_body("/orders", "k", "x").await.is_first(503, &format!("run {number}"));
            for (path, body) in [("/orders", "y"), ("/orders?a=1", "x"), ("/orders", "")] {
                assert_eq!(
                    repeat(&server, "k", path, body).await,
                    Repeat::Refused,
                    "{path} {body}"
                );
            }
        }
        // A process that binds no payload itself reads the same record.
        let lenient = bench.serve(bench.layer(), busy_at_first).await;
        assert_eq!(repeat(&lenient, "k", "/orders", "y").await, Repeat::Refused);
        let third = server.post_body("/orders", "k", "x").await;
        third.is_first(200, "run 3");
        server.post_body("/orders", "k", "x").await.is_replay_of(&third);
        assert_eq!(bench.runs(), 3);
    }
}

#[tokio::test]
async fn a_payload_that_is_ignored_binds_nothing_after_a_server_error() {
    for bench in both().await {
        let layer = bench.layer().bind_payload_after_failure().payload(Payload::Ignored);
        let server = bench.serve(layer, busy_at_first).await;
        server.post_body("/orders", "k", "x").await.is_first(503, "run 1");
        server.post_body("/orders", "k", "y").await.is_first(503, "run 2");
    }
}

#[tokio::test]
async fn a_bound_key_is_free_for_any_body_once_an_operator_freed_it_or_its_time_is_over() {
    for bench in both().await {
        let layer = bench.layer().bind_payload_after_failure().retention(RETENTION);
        let server = bench.serve(layer, busy_at_first).await;
        server.post_body("/orders", "k", "x").await.is_first(503, "run 1");
        assert_eq!(repeat(&server, "k", "/orders", "y").await, Repeat::Refused);
        let freed = bench.operation("/orders", "k").forget(false).await.unwrap();
        assert_eq!(freed, Forgotten::Freed);
        server.post_body("/orders", "k", "y").await.is_first(503, "run 2");
        assert_eq!(repeat(&server, "k", "/orders", "x").await, Repeat::Refused);
        bench.pass(RETENTION).await;
        server.post_body("/orders", "k", "x").await.is_first(200, "run 3");
    }
}

const RETENTION: Duration = Duration::from_secs(600);

const ORDERED: &str = r#"{"amount":5,"to":{"name":"ada","city":"paris"},"note":"a"}"#;
const REORDERED: &str = r#"{ "note": "a", "to": {"city": "paris", "name": "ada"}, "amount": 5 }"#;
const OTHER_NOTE: &str = r#"{"amount":5,"to":{"name":"ada","city":"paris"},"note":"b"}"#;
const OTHER_CITY: &str = r#"{"amount":5,"to":{"name":"ada","city":"rome"},"note":"a"}"#;

#[tokio::test]
async fn how_bodies_are_compared_can_be_chosen() {
    use Repeat::{Refused, Replayed};
    let members = Payload::Members(vec!["/amount".to_owned(), "/to/city".to_owned()]);
    let cases = [
        (Payload::Bytes, Refused, Refused, Refused, Refused),
        (Payload::CanonicalJson, Replayed, Refused, Refused, Refused),
        (members, Replayed, Replayed, Refused, Replayed),
        (Payload::Ignored, Replayed, Replayed, Replayed, Replayed),
    ];
    for bench in both().await {
        for (index, (payload, reordered, note, city, query)) in cases.iter().enumerate() {
            let server = bench.serve(bench.layer().payload(payload.clone()), number).await;
            let key = index.to_string();
            assert!(!server.post_body("/orders", &key, ORDERED).await.is_replay());
            for (path, body, expected) in [
                ("/orders", ORDERED, &Replayed),
                ("/orders", REORDERED, reordered),
                ("/orders", OTHER_NOTE, note),
                ("/orders", OTHER_CITY, city),
                ("/orders?a=1", ORDERED, query),
            ] {
                let got = repeat(&server, &key, path, body).await;
                assert_eq!(got, *expected, "{payload:?} {path} {body}");
            }
        }
        assert_eq!(bench.runs(), cases.len());
    }
}

#[tokio::test]
async fn a_body_that_is_not_json_is_compared_as_bytes() {
    let members = Payload::Members(vec!["/amount".to_owned()]);
    for bench in both().await {
        for (key, payload) in [("a", Payload::CanonicalJson), ("b", members.clone())] {
            let server = bench.serve(bench.layer().payload(payload), number).await;
            assert!(!server.post_body("/orders", key, "amount=5").await.is_replay());
            assert_eq!(repeat(&server, key, "/orders", "amount=5").await, Repeat::Replayed);
            assert_eq!(repeat(&server, key, "/orders", "amount=6").await, Repeat::Refused);
            assert_eq!(repeat(&server, key, "/orders", "{}").await, Repeat::Refused);
        }
    }
}

#[tokio::test]
async fn canonical_json_tells_numbers_apart_that_a_double_would_not() {
    for bench in both().await {
        let server = bench.serve(bench.layer().payload(Payload::CanonicalJson), number).await;
        let pairs = [
            ("[9007199254740992]", "[9007199254740993]"),
            ("[18446744073709551614]", "[18446744073709551615]"),
            ("[-9223372036854775807]", "[-9223372036854775808]"),
            ("[1]", "[1.0]"),
        ];
        for (index, (one, two)) in pairs.into_iter().enumerate() {
            let key = index.to_string();
            assert!(!server.post_body("/orders", &key, one).await.is_replay());
            assert_eq!(repeat(&server, &key, "/orders", one).await, Repeat::Replayed);
            assert_eq!(repeat(&server, &key, "/orders", two).await, Repeat::Refused, "{two}");
        }
    }
}

#[tokio::test]
async fn members_that_are_missing_do_not_make_all_bodies_one() {
    let members = Payload::Members(vec!["/amount".to_owned(), "/city".to_owned()]);
    for bench in both().await {
        let server = bench.serve(bench.layer().payload(members.clone()), number).await;
        let repeat = async |key: &str, body| repeat(&server, key, "/orders", body).await;
        assert!(!server.post_body("/orders", "none", r#"{"total":5}"#).await.is_replay());
        assert_eq!(repeat("none", r#"{"total":5}"#).await, Repeat::Replayed);
        assert_eq!(repeat("none", r#"{"total":6}"#).await, Repeat::Refused);
        assert_eq!(repeat("none", r#"{"total":5,"amount":5}"#).await, Repeat::Refused);
        assert!(!server.post_body("/orders", "one", r#"{"amount":5,"n":1}"#).await.is_replay());
        assert_eq!(repeat("one", r#"{"amount":5,"n":2}"#).await, Repeat::Replayed);
        assert_eq!(repeat("one", r#"{"amount":5,"city":null}"#).await, Repeat::Refused);
        assert_eq!(repeat("one", r#"{"total":5}"#).await, Repeat::Refused);
    }
}

/// A form of one field, as a client writes it that makes up a boundary for each try.
async fn post_form(server: &Server, key: &str, boundary: &str, value: &str) -> Reply {
    let body = format!(
        "--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
         content-type: text/plain\r\n\r\n{value}\r\n--{boundary}--\r\n"
    );
    let content_type = format!("multipart/form-data; boundary={boundary}");
    send(server.keyed("/files", key).header("content-type", content_type).body(body)).await
}

#[tokio::test]
async fn a_form_with_another_boundary_is_the_same_form() {
    for bench in both().await {
        for payload in [Payload::Bytes, Payload::CanonicalJson] {
            let key = format!("{payload:?}");
            let server = bench.serve(bench.layer().payload(payload), number).await;
            let first = post_form(&server, &key, "one", "content").await;
            post_form(&server, &key, "two", "content").await.is_replay_of(&first);
            let differs = post_form(&server, &key, "two", "other").await;
            differs.is_problem(422, ProblemType::PAYLOAD_MISMATCH.code());
        }
        assert_eq!(bench.runs(), 2);
    }
}

#[tokio::test]
async fn a_form_that_cannot_be_taken_apart_is_compared_as_bytes() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        let post = async |body: &'static str| {
            let content_type = "multipart/form-data; boundary=b";
            send(server.keyed("/files", "k").header("content-type", content_type).body(body)).await
        };
        let first = post("--b\r\nbroken off").await;
        post("--b\r\nbroken off").await.is_replay_of(&first);
        let differs = post("--b\r\nbroken of").await;
        differs.is_problem(422, ProblemType::PAYLOAD_MISMATCH.code());
    }
}

#[tokio::test]
async fn a_function_can_say_what_must_not_change() {
    for bench in both().await {
        let by = Payload::by(|parts, body| {
            assert!(!body.is_empty(), "the comparison panics, as it should");
            let tenant = parts.headers.get("x-tenant").map(|it| it.as_bytes()).unwrap_or_default();
            [tenant, b"\n", &body[..1]].concat()
        });
        let server = bench.serve(bench.layer().payload(by), number).await;
        assert!(!server.post_body("/orders", "k", "a1").await.is_replay());
        assert_eq!(repeat(&server, "k", "/orders?q", "a2").await, Repeat::Replayed);
        assert_eq!(repeat(&server, "k", "/orders", "b1").await, Repeat::Refused);
        let tenant = send(server.keyed("/orders", "k").header("x-tenant", "t").body("a1")).await;
        tenant.is_problem(422, ProblemType::PAYLOAD_MISMATCH.code());
        server
            .post_body("/orders", "other", "")
            .await
            .is_problem(500, ProblemType::MISCONFIGURED.code());
        assert_eq!((bench.runs(), bench.records().await), (1, 1));
    }
}
