//! The assertion that a route is handled once, and each way in which it must fail.

use crate::bench::{Bench, both};
use crate::server::{Run, counted, number};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{AppendHeaders, IntoResponse, Response};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt as _;
use http_body_util::channel::Channel;
use idempotent_http::testing::{assert_handled_once, assert_key_required};
use idempotent_http::{IdempotencyLayer, NoStore, Streaming};
use idempotent_runtime::{Config, current};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn memory() -> Bench {
    Bench::memory(Config::new())
}

impl Bench {
    fn router<F, A, R>(&self, layer: IdempotencyLayer, answer: F) -> Router
    where
        F: Fn(Run) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = R> + Send + 'static,
        R: IntoResponse,
    {
        counted(&self.ledger, answer).layer(layer)
    }
}

fn order() -> Request {
    Request::post("/orders?from=web").body(Body::from("lamp")).unwrap()
}

/// What the assertion says when it fails.
async fn fault_of(router: Router, request: Request) -> String {
    message(assert_handled_once(router, request)).await
}

async fn message<T>(assertion: impl Future<Output = T>) -> String {
    let payload = caught(assertion).await.err().expect("the assertion fails");
    let text = payload.downcast_ref::<String>().expect("it says why").clone();
    assert!(text.contains("asserted at tests/http/handled_once.rs"), "{text}");
    text
}

/// Awaits a future that may panic.
async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Box<dyn std::any::Any + Send>> {
    let mut future = Box::pin(future);
    std::future::poll_fn(|context| {
        let polled = AssertUnwindSafe(|| future.as_mut().poll(context));
        match std::panic::catch_unwind(polled) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => std::task::Poll::Ready(Err(panic)),
        }
    })
    .await
}

#[tokio::test]
async fn a_route_behind_the_layer_is_handled_once() {
    for bench in both().await {
        let answer = async |run: Run| {
            // Long enough for the others to come.
            tokio::task::yield_now().await;
            let headers = AppendHeaders([("location", "/orders/1"), ("set-cookie", "s=1")]);
            (StatusCode::CREATED, headers, format!("run {}", run.number))
        };
        let router = bench.router(bench.layer(), answer);
        let first = assert_handled_once(router.clone(), order()).await;
        assert_eq!((first.status(), &first.body()[..]), (StatusCode::CREATED, &b"run 1"[..]));
        assert_eq!(first.headers()["set-cookie"], "s=1");
        assert_eq!(bench.runs(), 1);
        // Each assertion has a key of its own.
        assert_handled_once(router.clone(), order()).await;
        assert_eq!(bench.runs(), 2);
        let mut own = order();
        own.headers_mut().insert("idempotency-key", HeaderValue::from_static("\"mine\""));
        assert_handled_once(router, own).await;
        assert!(bench.record("/orders", "mine").await.is_some());
    }
}

#[tokio::test]
async fn repeats_that_wait_and_refusals_that_are_stored_are_handled_once_too() {
    for bench in both().await {
        let layer = bench.layer().wait(std::time::Duration::from_secs(30));
        assert_handled_once(bench.router(layer, number), order()).await;
        let refuses = async |_| (StatusCode::UNPROCESSABLE_ENTITY, "no such item");
        assert_handled_once(bench.router(bench.layer(), refuses), order()).await;
        assert_eq!(bench.runs(), 2);
    }
}

#[tokio::test]
async fn without_a_layer_it_fails() {
    let bench = memory();
    let text = fault_of(counted(&bench.ledger, number), order()).await;
    let expected = "POST /orders was handled more than once: no layer looks at its key\n  help: put \
                    `IdempotencyLayer` around the route";
    assert!(text.starts_with(expected), "{text}");
}

#[tokio::test]
async fn where_the_key_is_ignored_it_fails() {
    let bench = memory();
    let mut put = order();
    *put.method_mut() = Method::PUT;
    let text = fault_of(bench.router(bench.layer(), number), put).await;
    assert!(text.contains("PUT /orders was handled more than once: no layer looks"), "{text}");
    assert!(text.contains("look at its `methods` and `headers`"), "{text}");
    let elsewhere = bench.layer().headers([http::HeaderName::from_static("x-token")]);
    let text = fault_of(bench.router(elsewhere, number), order()).await;
    assert!(text.contains("no layer looks at its key"), "{text}");
}

#[tokio::test]
async fn where_the_response_is_not_stored_it_fails_and_says_why() {
    let bench = memory();
    let layer = || bench.layer();
    let unavailable = async |_| StatusCode::SERVICE_UNAVAILABLE;
    let text = fault_of(bench.router(layer(), unavailable), order()).await;
    assert!(text.contains("not stored with status 503"), "{text}");
    assert!(text.contains("`store_server_errors`"), "{text}");

    let no_store = async |_| (axum::Extension(NoStore), "done");
    let text = fault_of(bench.router(layer(), no_store), order()).await;
    assert!(text.contains("its response has the extension `NoStore`"), "{text}");

    let text = fault_of(bench.router(layer().ambient_only(), number), order()).await;
    assert!(text.contains("its response, 200 OK, is not stored"), "{text}");
    assert!(text.contains("`ambient_only`"), "{text}");

    let leaves_out = layer().store_statuses(|status| status == StatusCode::CREATED);
    let text = fault_of(bench.router(leaves_out, number), order()).await;
    assert!(text.contains("`store_statuses` leaves this status out"), "{text}");

    let large = bench.router(layer().max_response_bytes(3), number);
    let text = fault_of(large, order()).await;
    assert!(text.contains("was handled, and its response not retained"), "{text}");
    assert!(text.contains("`max_response_bytes`"), "{text}");
}

#[tokio::test]
async fn a_stream_without_an_end_makes_it_fail_and_not_hang() {
    let bench = memory();
    let open = async |_| -> Response {
        let (sender, body) = Channel::<bytes::Bytes>::new(1);
        // Never ends.
        std::mem::forget(sender);
        (axum::Extension(Streaming), Body::new(body)).into_response()
    };
    let text = fault_of(bench.router(bench.layer(), open), order()).await;
    assert!(text.contains("it is a stream, or too large"), "{text}");
}

/// Something outside of the layer that changes each response, by its number.
fn changing(router: Router, change: fn(usize, Response) -> Response) -> Router {
    let count = Arc::new(AtomicUsize::new(0));
    router.layer(from_fn(move |request: Request, next: Next| {
        let count = Arc::clone(&count);
        async move { change(count.fetch_add(1, SeqCst), next.run(request).await) }
    }))
}

#[tokio::test]
async fn a_replay_that_differs_makes_it_fail_and_shows_both() {
    let bench = memory();
    let router = || bench.router(bench.layer(), number);
    let body = changing(router(), |count, response| {
        let replaced = Body::from(format!("answer {count}"));
        response.map(|_| replaced)
    });
    let text = fault_of(body, order()).await;
    assert!(text.contains("was replayed with another body"), "{text}");
    assert!(text.contains("first:  answer 0\n  replay: answer "), "{text}");

    let header = changing(router(), |count, mut response| {
        response.headers_mut().insert("x-count", count.into());
        response
    });
    let text = fault_of(header, order()).await;
    assert!(text.contains("was replayed with another header `x-count`\n  first:  0"), "{text}");

    let status = changing(router(), |_, mut response| {
        if response.headers().contains_key("idempotent-replayed") {
            *response.status_mut() = StatusCode::ACCEPTED;
        }
        response
    });
    let text = fault_of(status, order()).await;
    assert!(text.contains("another status\n  first:  200 OK\n  replay: 202 Accepted"), "{text}");

    // What belongs to one exchange may differ.
    let date = changing(router(), |count, mut response| {
        response.headers_mut().insert("x-request-id", count.into());
        response
    });
    assert_handled_once(date, order()).await;
}

#[tokio::test]
async fn a_mark_that_is_taken_off_makes_it_fail() {
    let bench = memory();
    let unmarked = changing(bench.router(bench.layer(), number), |_, mut response| {
        response.headers_mut().remove("idempotent-replayed");
        response
    });
    let text = fault_of(unmarked, order()).await;
    assert!(text.contains("takes off `Idempotent-Replayed`"), "{text}");
}

#[tokio::test]
async fn a_request_that_is_refused_makes_it_fail_and_shows_the_refusal() {
    let bench = memory();
    let scoped = bench.router(bench.layer().scope(|_| None), number);
    let text = fault_of(scoped, order()).await;
    assert!(text.starts_with("POST /orders was refused: 403 {"), "{text}");
    assert!(text.contains("scope-missing"), "{text}");
    let small = bench.router(bench.layer().max_request_bytes(1), number);
    let text = fault_of(small, order()).await;
    assert!(text.contains("was refused: 413"), "{text}");
    assert_eq!(bench.runs(), 0);
}

#[tokio::test]
async fn a_repeat_that_is_refused_makes_it_fail() {
    let bench = memory();
    // Something outside of the layer changes the body of each request.
    let count = Arc::new(AtomicUsize::new(0));
    let router =
        bench.router(bench.layer(), number).layer(from_fn(move |request: Request, next: Next| {
            let number = count.fetch_add(1, SeqCst);
            next.run(request.map(|_| Body::from(format!("{}", number.saturating_sub(3)))))
        }));
    let text = fault_of(router, order()).await;
    assert!(text.contains("was handled, and its repeat refused: 422"), "{text}");
}

#[tokio::test]
async fn a_key_that_was_used_before_makes_it_fail() {
    let bench = memory();
    let router = bench.router(bench.layer(), number);
    let own = || {
        let mut own = order();
        own.headers_mut().insert("idempotency-key", HeaderValue::from_static("k"));
        own
    };
    assert_handled_once(router.clone(), own()).await;
    let text = fault_of(router, own()).await;
    assert!(text.contains("every answer is a replay"), "{text}");
}

#[tokio::test]
async fn a_handler_that_runs_for_each_request_that_comes_at_once_makes_it_fail() {
    let bench = memory();
    // Something outside of the layer gives the first two keys of their own.
    let count = Arc::new(AtomicUsize::new(0));
    let router = bench.router(bench.layer(), number).layer(from_fn(
        move |mut request: Request, next: Next| {
            if count.fetch_add(1, SeqCst) < 2 {
                let key = HeaderValue::from(count.load(SeqCst));
                request.headers_mut().insert("idempotency-key", key);
            }
            next.run(request)
        },
    ));
    let text = fault_of(router, order()).await;
    assert!(text.contains("was handled more than once"), "{text}");
}

#[tokio::test]
async fn a_key_is_required_where_the_layer_says_so() {
    let bench = memory();
    let mut keyed = order();
    keyed.headers_mut().insert("idempotency-key", HeaderValue::from_static("k"));
    assert_key_required(bench.router(bench.layer().require_key(), number), keyed).await;
    assert_eq!(bench.runs(), 0);
    let optional = bench.router(bench.layer(), number);
    let text = message(assert_key_required(optional, order())).await;
    assert!(text.contains("POST /orders was handled without a key, with status 200 OK"), "{text}");
    assert!(text.contains("help: add `require_key()`"), "{text}");
    let mut empty_key = order();
    empty_key.headers_mut().insert("x-token", HeaderValue::from_static(""));
    let other = bench.layer().headers([http::HeaderName::from_static("x-token")]).require_key();
    let text = message(assert_key_required(bench.router(other, number), empty_key)).await;
    assert!(text.contains("was refused: 400"), "{text}");
}

#[tokio::test]
async fn the_body_of_the_request_reaches_the_handler_each_time() {
    let bench = memory();
    let echo = async |run: Run| {
        assert!(current().is_some());
        let body = Body::from(run.body).collect().await.unwrap().to_bytes();
        (StatusCode::OK, body)
    };
    let first = assert_handled_once(bench.router(bench.layer(), echo), order()).await;
    assert_eq!(&first.body()[..], b"lamp");
}

#[tokio::test]
async fn headers_that_the_layer_does_not_replay_may_be_missing() {
    for bench in both().await {
        let answer = async |run: Run| {
            ([("x-node", "a"), ("x-request-id", "7"), ("location", "/1")], number(run).await)
        };
        let name = HeaderName::from_static;
        let layer = bench.layer().never_replay_header(name("x-node"));
        let layer = layer.replay_header(name("x-request-id"));
        let first = assert_handled_once(bench.router(layer.clone(), answer), order()).await;
        assert_eq!(first.headers()["x-node"], "a");
        // What the layer replays is compared.
        let changed = changing(bench.router(layer, answer), |count, mut response| {
            response.headers_mut().insert("x-request-id", count.into());
            response
        });
        let text = fault_of(changed, order()).await;
        assert!(text.contains("another header `x-request-id`"), "{text}");
    }
}
