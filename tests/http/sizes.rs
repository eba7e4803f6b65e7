//! Bodies that are too large, cut off, or streamed.

use crate::bench::{Bench, both, both_with};
use crate::client::{Reply, send};
use crate::server::{Gate, Run, Server, number};
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::channel::Channel;
use idempotent_http::{IdempotencyLayer, Streaming, problem};
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::{Config, Error, Mode};
use std::convert::Infallible;
use support::events;

const HEAD: &str =
    "POST /orders HTTP/1.1\r\nhost: x\r\nconnection: close\r\nidempotency-key: k\r\n";

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whether_or_not_it_is_announced() {
    for bench in both().await {
        let server = bench.serve(bench.layer().max_request_bytes(8), number).await;
        // Nothing of it is sent: the announcement is enough.
        let announced = format!("{HEAD}content-length: 9\r\n\r\n");
        let refused = server.write(announced.as_bytes()).await;
        refused.is_problem(413, problem::BODY_TOO_LARGE.code());
        let chunked =
            format!("{HEAD}transfer-encoding: chunked\r\n\r\n5\r\n12345\r\n4\r\n6789\r\n");
        let refused = server.write(chunked.as_bytes()).await;
        refused.is_problem(413, problem::BODY_TOO_LARGE.code());
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
        let fits = server.post_body("/orders", "k", "12345678").await;
        fits.is_first(200, "run 1");
        let chunked =
            format!("{HEAD}transfer-encoding: chunked\r\n\r\n5\r\n12345\r\n3\r\n678\r\n0\r\n\r\n");
        server.write(chunked.as_bytes()).await.is_replay_of(&fits);
    }
}

#[tokio::test]
async fn the_limit_is_for_keyed_requests_only() {
    for bench in both().await {
        let length = async |run: Run| run.body.len().to_string();
        let server = bench.serve(bench.layer().max_request_bytes(8), length).await;
        let unkeyed = send(server.request(http::Method::POST, "/orders").body("123456789")).await;
        unkeyed.is_first(200, "9");
    }
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_no_record() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        for framing in
            ["content-length: 9\r\n\r\n1234", "transfer-encoding: chunked\r\n\r\n4\r\n12"]
        {
            let mut raw = server.connect().await;
            raw.write(format!("{HEAD}{framing}").as_bytes()).await;
            // Half closed: the client sends no more, and still reads.
            raw.end().await;
            let refused = raw.read_to_end().await;
            // Whoever hears the answer hears that it was incomplete; a connection may just end.
            let text = String::from_utf8(refused).unwrap();
            assert!(text.is_empty() || text.contains("400 Bad Request"), "{text}");
        }
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
        let malformed = format!("{HEAD}transfer-encoding: chunked\r\n\r\nnot a length\r\n");
        let refused = server.write(malformed.as_bytes()).await;
        refused.is_problem(400, problem::BODY_INCOMPLETE.code());
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
        server.post_body("/orders", "k", "another").await.is_first(200, "run 1");
    }
}

/// A body that comes in two pieces, the second one when the gate lets it.
fn pieces(first: &'static str, gate: Gate) -> Body {
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    tokio::spawn(async move {
        let _ = sender.send_data(Bytes::from_static(first.as_bytes())).await;
        gate.pass().await;
        let _ = sender.send_data(Bytes::from_static(b", and the rest")).await;
    });
    Body::new(body)
}

/// The first caller reads the first piece while the rest does not exist yet, and is told that a
/// repeat will not get it.
async fn flows_and_is_not_retained(
    bench: &Bench,
    layer: IdempotencyLayer,
    first: &'static str,
    decorate: fn(&mut Response),
) {
    let gate = Gate::shut();
    let answer = {
        let gate = gate.clone();
        move |_: Run| {
            let mut response = pieces(first, gate.clone()).into_response();
            decorate(&mut response);
            std::future::ready(response)
        }
    };
    let server = bench.serve(layer, answer).await;
    let mut live = server.keyed("/orders", "k").send().await.unwrap();
    assert_eq!(live.status(), 200);
    assert_eq!(live.headers()["idempotent-stored"], "false");
    assert!(!live.headers().contains_key("idempotent-replayed"));
    assert_eq!(live.chunk().await.unwrap().unwrap(), first);
    not_retained(bench, &server).await;
    gate.admit(1);
    assert_eq!(live.bytes().await.unwrap(), ", and the rest");
    not_retained(bench, &server).await;
}

pub(crate) async fn not_retained(bench: &Bench, server: &Server) {
    let repeat = server.post("/orders", "k").await;
    repeat.is_problem(409, ProblemType::RESULT_NOT_RETAINED.code());
    assert_eq!(bench.runs(), 1);
}

/// The status of the response that was not retained, as a repeat is told.
#[track_caller]
pub(crate) fn original_status(repeat: &Reply) -> Option<u64> {
    repeat.is_problem(409, ProblemType::RESULT_NOT_RETAINED.code());
    assert!(repeat.text().contains("(it was not handled again)"), "{repeat:?}");
    let problem: serde_json::Value = serde_json::from_slice(&repeat.body).unwrap();
    problem.get("original_status").map(|status| status.as_u64().unwrap())
}

#[tokio::test]
async fn a_repeat_of_what_was_not_retained_is_told_the_original_status() {
    for bench in both().await {
        let large = async |_: Run| (StatusCode::CREATED, "x".repeat(9));
        let server = bench.serve(bench.layer().max_response_bytes(8), large).await;
        server.post("/orders", "k").await.is_not_stored(201, &"x".repeat(9));
        for _ in 0..2 {
            assert_eq!(original_status(&server.post("/orders", "k").await), Some(201));
        }
        assert_eq!(bench.runs(), 1);
    }
}

/// What earlier releases wrote in such a case, and what an operator writes who resolves a key.
#[tokio::test]
async fn a_record_without_any_value_is_not_retained_either() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        let operation = bench.operation("/orders", "k").mode(Mode::Reject);
        operation.run(async { Ok::<(), Error>(()) }).await.unwrap();
        assert_eq!(original_status(&server.post("/orders", "k").await), None);
        assert_eq!(bench.runs(), 0);
    }
}

#[tokio::test]
async fn a_response_over_the_cap_flows_and_is_not_retained() {
    for bench in both().await {
        let layer = bench.layer().max_response_bytes(8);
        flows_and_is_not_retained(&bench, layer, "more than is kept", |_| {}).await;
    }
}

#[tokio::test]
async fn a_stream_of_events_flows_and_is_not_retained() {
    for bench in both().await {
        let decorate = |response: &mut Response| {
            let value = HeaderValue::from_static("text/event-stream; charset=utf-8");
            response.headers_mut().insert("content-type", value);
        };
        flows_and_is_not_retained(&bench, bench.layer(), "data: 1", decorate).await;
    }
}

#[tokio::test]
async fn a_stream_of_events_flows_however_its_media_type_is_written() {
    for bench in both().await {
        let decorate = |response: &mut Response| {
            let value = HeaderValue::from_static("Text/Event-Stream");
            response.headers_mut().insert("content-type", value);
        };
        flows_and_is_not_retained(&bench, bench.layer(), "data: 1", decorate).await;
    }
}

#[tokio::test]
async fn a_response_that_says_it_is_a_stream_flows_and_is_not_retained() {
    for bench in both().await {
        let decorate = |response: &mut Response| {
            response.extensions_mut().insert(Streaming);
        };
        flows_and_is_not_retained(&bench, bench.layer(), "one", decorate).await;
    }
}

#[tokio::test]
async fn a_change_of_protocols_is_not_retained() {
    for bench in both().await {
        let upgrades = async |_: Run| {
            let headers = [("connection", "upgrade"), ("upgrade", "echo")];
            (StatusCode::SWITCHING_PROTOCOLS, headers)
        };
        let server = bench.serve(bench.layer(), upgrades).await;
        let upgrade = server.keyed("/orders", "k").header("connection", "upgrade");
        let first = upgrade.header("upgrade", "echo").send().await.unwrap();
        assert_eq!(first.status(), 101);
        assert_eq!(first.headers()["idempotent-stored"], "false");
        not_retained(&bench, &server).await;
    }
}

#[tokio::test]
async fn a_response_that_announces_more_than_the_cap_is_whole_for_its_first_caller() {
    for bench in both().await {
        let large = async |_: Run| "x".repeat(9);
        let server = bench.serve(bench.layer().max_response_bytes(8), large).await;
        let first = server.post("/orders", "k").await;
        assert_eq!(first.text(), "x".repeat(9));
        assert_eq!(first.header("idempotent-stored"), Some("false"));
        assert_eq!(first.header("content-length"), Some("9"));
        not_retained(&bench, &server).await;
    }
}

#[tokio::test]
async fn a_response_of_exactly_the_cap_is_stored() {
    for bench in both().await {
        let exact = async |_: Run| "x".repeat(8);
        let server = bench.serve(bench.layer().max_response_bytes(8), exact).await;
        let first = server.post("/orders", "k").await;
        first.is_first(200, "xxxxxxxx");
        server.post("/orders", "k").await.is_replay_of(&first);
    }
}

/// The instance keeps less than the layer would: its limit counts, headers included.
#[tokio::test]
async fn what_the_instance_does_not_keep_is_marked_as_not_stored() {
    for bench in both_with(Config::new().with_max_value_bytes(300)).await {
        let answer = async |run: Run| -> Response {
            match run.parts.uri.path() {
                "/body" => "x".repeat(301).into_response(),
                "/both" => "x".repeat(290).into_response(),
                _ => ([("x-long", "y".repeat(301))], "short").into_response(),
            }
        };
        let server = bench.serve(bench.layer(), answer).await;
        for path in ["/body", "/both", "/headers"] {
            let first: Reply = server.post(path, "k").await;
            assert_eq!(first.status, 200);
            assert_eq!(first.header("idempotent-stored"), Some("false"), "{path}");
            let repeat = server.post(path, "k").await;
            repeat.is_problem(409, ProblemType::RESULT_NOT_RETAINED.code());
            assert_eq!(bench.ledger.ran(path), 1);
        }
        let small = bench.serve(bench.layer(), number).await;
        let first = small.post("/small", "k").await;
        first.is_first(200, "run 4");
        small.post("/small", "k").await.is_replay_of(&first);
    }
}

#[tokio::test]
async fn trailers_are_replayed() {
    for bench in both().await {
        let with_trailers = async |_: Run| {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-digest", HeaderValue::from_static("abc"));
            let (mut sender, body) = Channel::<Bytes, Infallible>::new(2);
            sender.send_data(Bytes::from_static(b"x")).await.unwrap();
            sender.send_trailers(trailers).await.unwrap();
            ([("trailer", "x-digest")], Body::new(body))
        };
        let server = bench.serve(bench.layer(), with_trailers).await;
        let request = format!("{HEAD}te: trailers\r\ncontent-length: 0\r\n\r\n");
        let post = async || {
            let mut raw = server.connect().await;
            raw.write(request.as_bytes()).await;
            String::from_utf8(raw.read_to_end().await).unwrap()
        };
        let first = post().await;
        assert!(first.ends_with("1\r\nx\r\n0\r\nx-digest: abc\r\n\r\n"), "{first}");
        let again = post().await;
        assert!(again.contains("idempotent-replayed: true"), "{again}");
        assert!(again.ends_with("1\r\nx\r\n0\r\nx-digest: abc\r\n\r\n"), "{again}");
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_is_500_and_frees_the_key() {
    for bench in both().await {
        let breaks_first = async |run: Run| -> Response {
            if run.number > 1 {
                return format!("run {}", run.number).into_response();
            }
            let (mut sender, body) = Channel::<Bytes, std::io::Error>::new(1);
            tokio::spawn(async move {
                let _ = sender.send_data(Bytes::from_static(b"half")).await;
                sender.abort(std::io::Error::other("broke off"));
            });
            Body::new(body).into_response()
        };
        let server = bench.serve(bench.layer(), breaks_first).await;
        let broken = server.post("/orders", "k").await;
        broken.is_problem(500, problem::HANDLER_FAILED.code());
        server.post("/orders", "k").await.is_first(200, "run 2");
    }
}

/// A client that leaves a stream does not change what was recorded.
#[tokio::test]
async fn a_stream_that_its_client_leaves_is_not_run_again() {
    for bench in both().await {
        let gate = Gate::shut();
        let answer = {
            let gate = gate.clone();
            move |_: Run| {
                let mut response = pieces("one", gate.clone()).into_response();
                response.extensions_mut().insert(Streaming);
                std::future::ready(response)
            }
        };
        let server = bench.serve(bench.layer(), answer).await;
        let live = server.keyed("/orders", "k").send().await.unwrap();
        drop(live);
        not_retained(&bench, &server).await;
    }
}

/// A body whose length only its header announces.
fn announced(length: &'static str, text: &'static str) -> Response {
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    tokio::spawn(async move { sender.send_data(Bytes::from_static(text.as_bytes())).await });
    ([("content-length", length)], Body::new(body)).into_response()
}

/// A client that goes by the header would wait for the rest, or take it for the next response.
#[tokio::test]
async fn a_length_that_a_body_does_not_have_is_left_out() {
    for (text, is_right) in [("short", false), ("far too long", false), ("one lamp", true)] {
        for bench in both().await {
            let answer = async move |_: Run| announced("8", text);
            let server = bench.serve(bench.layer(), answer).await;
            let events = events::collect();
            let first = server.post("/orders", "k").await;
            first.is_first(200, text);
            assert_eq!(first.header("content-length"), Some(&*text.len().to_string()));
            let told = events
                .take("a response is not as long as its Content-Length says, which is left out");
            assert_eq!(told.is_empty(), is_right, "{text}");
            server.post("/orders", "k").await.is_replay_of(&first);
            assert_eq!(bench.runs(), 1);
        }
    }
}

/// The header of a response without a body may tell of the one that it stands for.
#[tokio::test]
async fn a_response_without_a_body_may_announce_one() {
    for bench in both().await {
        let answer = async |_: Run| (StatusCode::NOT_MODIFIED, [("content-length", "8")]);
        let server = bench.serve(bench.layer(), answer).await;
        let first = server.post("/orders", "k").await;
        first.is_first(304, "");
        server.post("/orders", "k").await.is_replay_of(&first);
        assert_eq!(bench.runs(), 1);
    }
}
