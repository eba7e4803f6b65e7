//! Operators' verbs on a key.

use crate::bench::{Bench, both, both_with};
use crate::client::{Reply, send};
use crate::server::{Gate, Run, Server, counted, handler, held, number, serve};
use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use idempotent_http::{IdempotencyLayer, RecordHandle, Streaming, problem};
use idempotent_runtime::codec::Encryption;
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::protocol::{Forgotten, Resolved};
use idempotent_runtime::store::State;
use idempotent_runtime::testing::{Fault, Verb};
use idempotent_runtime::{Abandon, Config, ErrorKind, Idempotency};
use std::time::Duration;
use support::until;

const LEASE: Duration = Duration::from_secs(30);

fn blocking(bench: &Bench) -> IdempotencyLayer {
    bench.layer().abandon(Abandon::Block)
}

fn orders(layer: &IdempotencyLayer) -> RecordHandle {
    layer.record(Method::POST, "/orders", "k")
}

/// Panics the first time, and answers with the number of the run later.
async fn panics_first(run: Run) -> String {
    assert_ne!(run.number, 1, "the handler panics, as it should");
    number(run).await
}

/// A response with everything that could get lost.
fn decided() -> Response<Bytes> {
    Response::builder()
        .status(201)
        .header("location", "/orders/1")
        .header("content-type", "application/octet-stream")
        .header("link", "<a>")
        .header("link", "<b>")
        .body(Bytes::from_static(b"\x00\xff\r\n\r\nbinary"))
        .unwrap()
}

/// The replay of what an operator decided: the same bytes, and nothing added but what every replay
/// has.
#[track_caller]
fn is_the_decision(reply: &Reply) {
    let decided = decided();
    assert_eq!((reply.status, &reply.body), (decided.status(), decided.body()), "{reply:?}");
    let mut headers: HeaderMap = reply.headers.clone();
    assert_eq!(headers.remove("idempotent-replayed").unwrap(), "true");
    headers.remove(DATE);
    headers.remove(CONTENT_LENGTH);
    assert_eq!(&headers, decided.headers());
}

/// A key that blocks because its handler was cut off.
async fn cut_off(bench: &Bench, layer: &IdempotencyLayer) -> Server {
    let server = bench.serve(layer.clone(), panics_first).await;
    server.post_body("/orders", "k", "one").await.is_problem(500, problem::HANDLER_FAILED.code());
    let repeat = server.post_body("/orders", "k", "one").await;
    repeat.is_problem(409, ProblemType::OUTCOME_UNKNOWN.code());
    server
}

#[tokio::test]
async fn a_blocked_key_that_is_resolved_with_a_response_replays_it() {
    for bench in both().await {
        let layer = blocking(&bench);
        let server = cut_off(&bench, &layer).await;
        let record = orders(&layer);
        let found = record.get().await.unwrap().unwrap();
        assert_eq!((found.state, found.attempt), (State::Abandoned, 1));
        assert!(found.is_blocked() && !found.is_in_progress() && found.response.is_none());

        assert_eq!(record.resolve(decided()).await.unwrap(), Resolved::Done);
        for _ in 0..2 {
            is_the_decision(&server.post_body("/orders", "k", "one").await);
        }
        let found = record.get().await.unwrap().unwrap();
        assert_eq!((found.state, found.is_blocked()), (State::Succeeded, false));
        let day = Duration::from_secs(24 * 3_600);
        assert!(found.expires_in <= day && found.expires_in > day / 2, "{found:?}");
        let stored = found.response.unwrap();
        assert_eq!((stored.status(), stored.body()), (decided().status(), decided().body()));
        assert_eq!(stored.headers(), decided().headers());
        // The key is bound to its first payload as before.
        let other = server.post_body("/orders", "k", "two").await;
        other.is_problem(422, ProblemType::PAYLOAD_MISMATCH.code());
        assert_eq!(bench.runs(), 1);
    }
}

/// The store hears no more of a server whose handler runs, as if its process had been killed.
#[tokio::test]
async fn the_key_of_a_server_that_died_can_be_resolved_once_its_lease_is_over() {
    for bench in both().await {
        let gate = Gate::shut();
        let (neighbour, store) = bench.neighbour().await;
        let layer = IdempotencyLayer::new(&neighbour, "shop").abandon(Abandon::Block);
        let dying = bench.serve(layer, held(&gate)).await;
        let first = tokio::spawn(send(dying.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        for verb in Verb::ALL {
            store.fault_always(verb, Fault::Hang);
        }
        let record = orders(&bench.layer());
        let found = record.get().await.unwrap().unwrap();
        assert!(found.is_in_progress() && !found.is_blocked(), "{found:?}");
        let held = Resolved::NotIndeterminate(State::Processing);
        assert_eq!(record.resolve(decided()).await.unwrap(), held);

        bench.pass(LEASE + Duration::from_millis(1)).await;
        let server = bench.serve(bench.layer(), number).await;
        let repeat = server.post("/orders", "k").await;
        repeat.is_problem(409, ProblemType::OUTCOME_UNKNOWN.code());
        let found = record.get().await.unwrap().unwrap();
        assert_eq!((found.state, found.lease_left), (State::Processing, Duration::ZERO));
        assert!(found.is_blocked());
        assert_eq!(record.resolve(decided()).await.unwrap(), Resolved::Done);
        is_the_decision(&server.post("/orders", "k").await);
        assert_eq!(bench.runs(), 1);
        first.abort();
    }
}

#[tokio::test]
async fn a_blocked_key_that_is_resolved_as_retry_runs_again() {
    for bench in both().await {
        let layer = blocking(&bench);
        let server = cut_off(&bench, &layer).await;
        assert_eq!(orders(&layer).resolve_as_retry().await.unwrap(), Resolved::Done);
        let second = server.post_body("/orders", "k", "one").await;
        second.is_first(200, "run 2");
        assert_eq!(orders(&layer).get().await.unwrap().unwrap().attempt, 2);
        server.post_body("/orders", "k", "one").await.is_replay_of(&second);
    }
}

#[tokio::test]
async fn a_blocked_key_whose_response_is_lost_does_not_run_again() {
    for bench in both().await {
        let layer = blocking(&bench);
        let server = cut_off(&bench, &layer).await;
        assert_eq!(orders(&layer).resolve_without_response().await.unwrap(), Resolved::Done);
        let repeat = server.post_body("/orders", "k", "one").await;
        repeat.is_problem(409, ProblemType::RESULT_NOT_RETAINED.code());
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn a_response_that_cannot_be_replayed_resolves_nothing() {
    for bench in both_with(Config::new().with_max_value_bytes(256)).await {
        let layer = blocking(&bench);
        let server = cut_off(&bench, &layer).await;
        let record = orders(&layer);
        let large = record.resolve(Response::new("x".repeat(257))).await.unwrap_err();
        assert_eq!(large.kind(), ErrorKind::ResultUnavailable);
        let interim = Response::builder().status(100).body(Bytes::new()).unwrap();
        let interim = record.resolve(interim).await.unwrap_err();
        assert!(interim.message().contains("interim"), "{interim}");
        let repeat = server.post_body("/orders", "k", "one").await;
        repeat.is_problem(409, ProblemType::OUTCOME_UNKNOWN.code());
    }
}

#[tokio::test]
async fn an_answer_is_read_and_forgotten() {
    for bench in both().await {
        let layer = bench.layer();
        let server = bench.serve(layer.clone(), number).await;
        let record = layer.record(Method::POST, "/orders?color=red", "k");
        assert!(record.get().await.unwrap().is_none());
        assert_eq!(record.forget(true).await.unwrap(), Forgotten::NotFound);
        assert_eq!(record.resolve_as_retry().await.unwrap(), Resolved::NotFound);

        let first = send(server.keyed("/orders?color=red", "k")).await;
        first.is_first(200, "run 1");
        let found = record.get().await.unwrap().unwrap();
        assert_eq!((found.state, found.attempt), (State::Succeeded, 1));
        assert_eq!(found.response.unwrap().body(), "run 1");
        let answered = Resolved::NotIndeterminate(State::Succeeded);
        assert_eq!(record.resolve(decided()).await.unwrap(), answered);
        send(server.keyed("/orders?color=red", "k")).await.is_replay_of(&first);

        assert_eq!(record.forget(false).await.unwrap(), Forgotten::Deleted);
        assert_eq!(bench.records().await, 0);
        server.post("/orders", "k").await.is_first(200, "run 2");
    }
}

#[tokio::test]
async fn a_key_in_progress_is_forgotten_by_force_only() {
    for bench in both().await {
        let gate = Gate::shut();
        let layer = bench.layer();
        let server = bench.serve(layer.clone(), held(&gate)).await;
        let first = tokio::spawn(send(server.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        assert_eq!(orders(&layer).forget(false).await.unwrap(), Forgotten::Held);
        assert_eq!(orders(&layer).forget(true).await.unwrap(), Forgotten::Freed);
        gate.admit(2);
        let superseded = first.await.unwrap();
        superseded.is_problem(409, ProblemType::SUPERSEDED.code());
        server.post("/orders", "k").await.is_first(200, "run 2");
    }
}

fn by_user(layer: IdempotencyLayer) -> IdempotencyLayer {
    layer.scope(|parts| Some(parts.headers.get("user")?.to_str().ok()?.to_owned()))
}

#[tokio::test]
async fn a_record_is_that_of_its_scope_and_must_name_one_where_the_layer_does() {
    for bench in both().await {
        let layer = by_user(bench.layer());
        let server = bench.serve(layer.clone(), number).await;
        send(server.keyed("/orders", "k").header("user", "ada")).await.is_first(200, "run 1");
        let found = orders(&layer).scope("ada").get().await.unwrap().unwrap();
        assert_eq!(found.response.unwrap().body(), "run 1");
        assert!(orders(&layer).scope("bob").get().await.unwrap().is_none());
        for nobody in [orders(&layer), orders(&layer).scope("")] {
            let refused = nobody.get().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::MissingKey);
            assert!(refused.message().contains("scope"), "{refused}");
            assert!(nobody.forget(true).await.is_err() && nobody.record_key().is_err());
            assert!(nobody.resolve_as_retry().await.is_err());
        }
        send(server.keyed("/orders", "k").header("user", "bob")).await.is_first(200, "run 2");
    }
}

/// An operator's own request may be guarded, and then has a scope in place, which is not that of the
/// record.
#[tokio::test]
async fn a_guarded_handler_finds_records_of_others() {
    for bench in both().await {
        let layer = by_user(blocking(&bench));
        let resolves = {
            let layer = layer.clone();
            post(async move || {
                let record = orders(&layer).scope("ada");
                format!("{:?}", record.resolve(decided()).await.unwrap())
            })
        };
        let router = Router::new()
            .route("/resolve", resolves)
            .route("/orders", handler(&bench.ledger, panics_first))
            .layer(layer);
        let server = serve(router).await;
        let order = || server.keyed("/orders", "k").header("user", "ada");
        send(order()).await.is_problem(500, problem::HANDLER_FAILED.code());
        let resolved = send(server.keyed("/resolve", "r").header("user", "operator")).await;
        resolved.is_first(200, "Done");
        is_the_decision(&send(order()).await);
    }
}

#[tokio::test]
async fn a_record_inside_an_ambient_scope_is_found_by_naming_it() {
    for bench in both().await {
        let tenant = bench.layer().name("tenants").ambient_only();
        let tenant = tenant.scope(|_| Some("acme".to_owned()));
        let layer = bench.layer();
        let router = counted(&bench.ledger, number).layer(layer.clone()).layer(tenant);
        let server = serve(router).await;
        server.post("/orders", "k").await.is_first(200, "run 1");
        assert!(orders(&layer).get().await.unwrap().is_none());
        let found = orders(&layer).ambient_scope("acme").get().await.unwrap().unwrap();
        assert_eq!(found.response.unwrap().body(), "run 1");
    }
}

#[tokio::test]
async fn a_stream_has_no_response_to_look_at() {
    for bench in both().await {
        let layer = bench.layer();
        let streams = async |_: Run| (axum::Extension(Streaming), "flows");
        let server = bench.serve(layer.clone(), streams).await;
        server.post("/orders", "k").await;
        let found = orders(&layer).get().await.unwrap().unwrap();
        assert_eq!((found.state, found.response.is_none()), (State::Succeeded, true));
        assert_eq!(found.status, Some(StatusCode::OK));
    }
}

#[tokio::test]
async fn responses_of_operators_are_encrypted_like_all_others() {
    let idem = Idempotency::builder().encryption(Encryption::new(1, [7; 32])).build().unwrap();
    let bench = Bench::memory(Config::new());
    let layer = IdempotencyLayer::new(&idem, "shop").abandon(Abandon::Block);
    let server = cut_off(&bench, &layer).await;
    let record = orders(&layer);
    assert_eq!(record.resolve(decided()).await.unwrap(), Resolved::Done);
    is_the_decision(&server.post_body("/orders", "k", "one").await);
    let found = record.get().await.unwrap().unwrap();
    assert_eq!(found.response.unwrap().body(), decided().body());
    let stored = idem.store().load(&record.record_key().unwrap()).await.unwrap().unwrap();
    let bytes = stored.value.unwrap();
    assert!(!bytes.as_bytes().windows(6).any(|window| window == b"binary"));
}

/// The page names the records of these requests as they are.
#[tokio::test]
async fn the_documented_names_of_records_are_theirs() {
    let bench = Bench::memory(Config::new());
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/http.md");
    let page = std::fs::read_to_string(page).unwrap();
    let name = |record: RecordHandle| record.record_key().unwrap().as_str().to_owned();
    let record = bench.layer().record(Method::POST, "/orders", "7f3a");
    for name in [name(record.clone()), name(record.clone().scope("acme"))] {
        assert!(page.lines().any(|line| line == name), "{name}");
    }
    assert_eq!(
        record.record_key().unwrap(),
        bench.operation("/orders", "7f3a").record_key().unwrap()
    );
    assert!(!format!("{record:?}").contains("7f3a"));
    let server = bench.serve(bench.layer(), number).await;
    assert_eq!(server.post("/orders", "7f3a").await.status, StatusCode::OK);
    assert!(bench.idem.store().load(&record.record_key().unwrap()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_response_of_an_operator_has_the_headers_that_the_layer_replays() {
    for bench in both().await {
        let layer = blocking(&bench)
            .never_replay_header(HeaderName::from_static("x-ticket"))
            .replay_header(HeaderName::from_static("x-request-id"));
        let server = cut_off(&bench, &layer).await;
        let response = Response::builder().header("x-ticket", "1").header("x-request-id", "7");
        let response = response.body("charged").unwrap();
        assert_eq!(orders(&layer).resolve(response).await.unwrap(), Resolved::Done);
        let replay = server.post_body("/orders", "k", "one").await;
        assert!(replay.is_replay(), "{replay:?}");
        assert_eq!((replay.header("x-ticket"), replay.header("x-request-id")), (None, Some("7")));
    }
}
