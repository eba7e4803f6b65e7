//! Clients that leave at any moment: each request is reported once, and nothing stays counted.

use crate::bench::{Bench, both};
use crate::server::{Gate, Run, counted};
use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderName, Request, StatusCode};
use http_body_util::channel::Channel;
use idempotent_http::{FormTokens, IdempotencyLayer, Streaming};
use std::convert::Infallible;
use std::time::Duration;
use support::events::{self, Events};
use support::{poll_at_most, until, until_async};
use tokio::task::yield_now;
use tower_service::Service as _;

const HOUR: Duration = Duration::from_secs(3_600);

/// Moments to leave at, in polls of the request.
fn moments() -> impl Iterator<Item = usize> {
    (0..=24).chain((5..=14).map(|power| 1 << power))
}

/// A handler that waits, and ends in each of the ways that there are.
async fn ends(run: Run) -> Response {
    yield_now().await;
    yield_now().await;
    match run.parts.headers["ends"].as_bytes() {
        b"panic" => panic!("the handler panics, as it should"),
        b"failure" => StatusCode::BAD_GATEWAY.into_response(),
        b"stream" => (axum::Extension(Streaming), "flows").into_response(),
        _ => "done".into_response(),
    }
}

const ENDS: [&str; 4] = ["done", "failure", "stream", "panic"];

/// A body that comes piece by piece.
fn upload() -> Body {
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    tokio::spawn(async move {
        for piece in ["one", "lamp"] {
            yield_now().await;
            // Its reader may have gone.
            let _ = sender.send_data(Bytes::from_static(piece.as_bytes())).await;
        }
    });
    Body::new(body)
}

fn order(user: &str, key: &str, ends: &str) -> Request<Body> {
    let request = Request::post("/orders").header("idempotency-key", key).header("user", user);
    request.header("ends", ends).body(upload()).unwrap()
}

async fn answer(router: &Router, request: Request<Body>) -> Response {
    router.clone().call(request).await.unwrap()
}

fn by_user(layer: IdempotencyLayer) -> IdempotencyLayer {
    layer.scope_async(|parts| {
        let user = parts.headers["user"].to_str().unwrap().to_owned();
        async move {
            yield_now().await;
            Ok::<_, Infallible>(Some(user))
        }
    })
}

/// Waits for handlers that go on without their client.
async fn at_rest(bench: &Bench) {
    until(|| bench.idem.in_flight() == 0).await;
    // What follows the end of a call has happened after the next turn of its task.
    yield_now().await;
}

fn calls(events: &Events) -> usize {
    events.take_all().iter().filter(|event| event.message == "call ended").count()
}

/// The client leaves while its body is read, its scope looked up, its record looked at and begun, and
/// while its handler runs.
#[tokio::test]
async fn wherever_a_client_leaves_its_request_is_reported_once_and_gives_its_places_back() {
    for bench in both().await {
        let layer = by_user(bench.layer()).new_keys_per_scope(1, HOUR);
        let router = counted(&bench.ledger, ends).layer(layer.clone());
        // Shares the count of handlers whose clients have gone.
        let probe = counted(&bench.ledger, ends).layer(layer.max_orphaned_handlers(1));
        let (mut left, mut orphaned) = (0, 0);
        for ending in ENDS {
            for polls in moments() {
                let user = format!("{ending} {polls}");
                let (runs, events) = (bench.runs(), events::collect());
                let mut service = router.clone();
                let sent = service.call(order(&user, "k", ending));
                let has_left = poll_at_most(polls, sent).await.is_none();
                at_rest(&bench).await;
                let mut reported = calls(&events);
                until(|| {
                    reported += calls(&events);
                    reported == usize::from(polls > 0)
                })
                .await;
                // If its handler ran, this user has used up its keys.
                let began = bench.runs() - runs;
                left += usize::from(has_left && began == 0);
                orphaned += usize::from(has_left && began == 1);
                let refused = answer(&router, order(&user, "other", "done")).await;
                let expected = if began == 1 { 429 } else { 200 };
                assert_eq!((refused.status().as_u16(), began < 2), (expected, true), "{user}");
                until_async(async || {
                    let user = format!("{user} {}", bench.runs());
                    answer(&probe, order(&user, "k", "done")).await.status() != 503
                })
                .await;
            }
        }
        assert!(left > 0 && orphaned > 0, "{left} before and {orphaned} after it began");
    }
}

#[tokio::test]
async fn wherever_a_client_leaves_its_form_is_reported_once_and_its_token_used_or_good() {
    for bench in both().await {
        let tokens = FormTokens::new(&bench.idem, "order");
        let router = counted(&bench.ledger, ends).layer(tokens.clone());
        let probe = counted(&bench.ledger, ends).layer(tokens.clone().max_orphaned_handlers(1));
        let form = |token: &str, ending: &str| {
            let request = Request::post("/orders").header("form-token", token);
            request.header("ends", ending).body(upload()).unwrap()
        };
        for ending in ENDS {
            for polls in moments() {
                let token = tokens.issue(None).await.unwrap();
                let (runs, events) = (bench.runs(), events::collect());
                let mut service = router.clone();
                let sent = poll_at_most(polls, service.call(form(&token, ending))).await;
                drop(sent);
                let mut reported = 0;
                until(|| {
                    reported += calls(&events);
                    reported == usize::from(polls > 0)
                })
                .await;
                at_rest(&bench).await;
                let began = bench.runs() - runs;
                let is_used = began == 1 && ["done", "stream"].contains(&ending);
                let expected = if is_used { 409 } else { 200 };
                let again = answer(&router, form(&token, "done")).await;
                assert_eq!(again.status(), expected, "{ending} {polls} {began}");
                until_async(async || {
                    let token = tokens.issue(None).await.unwrap();
                    answer(&probe, form(&token, "done")).await.status() != 503
                })
                .await;
            }
        }
    }
}

/// As a careless configuration has them.
#[tokio::test]
async fn the_longest_times_can_be_chosen() {
    for bench in both().await {
        let gate = Gate::shut();
        let held = gate.clone();
        let answers = move |_: Run| {
            let gate = held.clone();
            let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
            tokio::spawn(async move {
                gate.pass().await;
                sender.send_data(Bytes::from_static(b"late")).await
            });
            std::future::ready(Body::new(body))
        };
        let layer = bench
            .layer()
            .stream_after(Duration::MAX)
            .retention_by(|_, _| Some(Duration::MAX))
            .retry_after(Duration::MAX)
            .wait(Duration::MAX);
        let server = bench.serve(layer, answers).await;
        let first = tokio::spawn(crate::client::send(server.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        bench.tick(HOUR);
        gate.admit(1);
        let first = first.await.unwrap();
        first.is_first(200, "late");
        server.post("/orders", "k").await.is_replay_of(&first);

        let tokens = FormTokens::new(&bench.idem, "order").expire(Duration::MAX);
        let token = tokens.issue(None).await.unwrap();
        let router = counted(&bench.ledger, ends).layer(tokens);
        for status in [200, 409] {
            let form = Request::post("/orders").header("form-token", &token).header("ends", "done");
            let answer = answer(&router, form.body(Body::empty()).unwrap()).await;
            assert_eq!(answer.status(), status);
        }
    }
}

/// A problem with the store of the service behind a gateway is none with the gateway's.
#[tokio::test]
async fn a_replay_does_not_say_that_it_is_not_stored() {
    for bench in both().await {
        let name = HeaderName::from_static("idempotent-stored");
        let answers = move |_: Run| std::future::ready(([(name.clone(), "false")], "passed on"));
        let server = bench.serve(bench.layer(), answers).await;
        let first = server.post("/orders", "k").await;
        assert_eq!(first.text(), "passed on");
        let again = server.post("/orders", "k").await;
        again.is_replay_of(&first);
        assert_eq!(again.header("idempotent-stored"), None);
    }
}
