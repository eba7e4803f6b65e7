//! Several layers in one service.

use crate::bench::both;
use crate::client::{KEY, Reply, send};
use crate::server::{Gate, Run, Server, counted, handler, held, number, serve};
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use idempotent_http::{IdempotencyLayer, Payload, problem};
use idempotent_runtime::Abandon;
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::testing::Ledger;
use std::convert::Infallible;
use support::until;

#[tokio::test]
async fn layers_inside_each_other_guard_once() {
    for bench in both().await {
        let router = counted(&bench.ledger, number);
        let server = serve(router.layer(bench.layer().name("inner")).layer(bench.layer())).await;
        let first = server.post("/orders", "k").await;
        first.is_first(200, "run 1");
        server.post("/orders", "k").await.is_replay_of(&first);
        assert_eq!((bench.runs(), bench.records().await), (1, 1));
    }
}

/// The outer one would replay one principal's response to another before the inner one is asked.
#[tokio::test]
async fn a_scope_inside_a_layer_without_one_is_refused() {
    let scoped = |layer: IdempotencyLayer| layer.scope(|_| Some("acme".to_owned()));
    for bench in both().await {
        for inner in [bench.layer(), bench.layer().ambient_only()] {
            let router = counted(&bench.ledger, number).layer(scoped(inner));
            let server = serve(router.layer(bench.layer())).await;
            let refused = server.post("/orders", "k").await;
            refused.is_problem(500, ProblemType::MISCONFIGURED.code());
            assert_eq!(bench.runs(), 0);
        }
        let router = counted(&bench.ledger, number).layer(scoped(bench.layer()));
        let server = serve(router.layer(scoped(bench.layer()))).await;
        server.post("/orders", "k").await.is_first(200, "run 1");
    }
}

#[tokio::test]
async fn an_inner_layer_guards_what_the_outer_one_lets_through() {
    let header = HeaderName::from_static("payment-key");
    for bench in both().await {
        let inner = bench.layer().require_key().headers([header.clone(), KEY.parse().unwrap()]);
        for outer in [bench.layer().headers([KEY.parse().unwrap()]), bench.layer().ambient_only()] {
            let before = bench.runs();
            let router = counted(&bench.ledger, number).layer(inner.clone()).layer(outer);
            let server = serve(router).await;
            let unkeyed = send(server.request(Method::POST, "/payments")).await;
            unkeyed.is_problem(400, ProblemType::MISSING_KEY.code());
            assert_eq!(bench.runs(), before);
            let key = format!("k{before}");
            let post = || server.request(Method::POST, "/payments").header(&header, &key);
            let first = send(post()).await;
            first.is_first(200, &format!("run {}", before + 1));
            send(post()).await.is_replay_of(&first);
        }
    }
}

/// What two layers around this one tell each other through the request and the response.
#[derive(Clone)]
struct Note(&'static str);

async fn passes_notes(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Note("in"));
    let mut response = next.run(request).await;
    let note = response.extensions().get::<Note>().map_or("none", |note| note.0);
    response.headers_mut().insert("note", HeaderValue::from_static(note));
    response
}

async fn answers_notes(run: Run) -> Response {
    let is_noted = run.parts.extensions.get::<Note>().is_some_and(|note| note.0 == "in");
    let mut response = number(run).await.into_response();
    if is_noted {
        response.extensions_mut().insert(Note("out"));
    }
    response
}

/// Extensions are of one exchange: a replay has none of the first one's.
#[tokio::test]
async fn extensions_of_other_layers_pass_in_both_directions() {
    for bench in both().await {
        let router = counted(&bench.ledger, answers_notes).layer(bench.layer());
        let server = serve(router.layer(from_fn(passes_notes))).await;
        let note = |reply: &Reply| reply.headers["note"].clone();
        assert_eq!(note(&server.post("/orders", "k").await), "out");
        assert_eq!(note(&server.post("/orders", "k").await), "none");
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn routes_have_variants_of_one_layer() {
    for bench in both().await {
        let most = bench.layer();
        let payments = most.clone().require_key().strict_keys();
        let imports = most.clone().max_request_bytes(4).payload(Payload::Ignored);
        let route = |layer| handler(&bench.ledger, number).layer::<_, Infallible>(layer);
        let router = Router::new()
            .route("/orders", route(most))
            .route("/payments", route(payments))
            .route("/imports", route(imports));
        let server = serve(router).await;
        let unkeyed = async |path| send(server.request(Method::POST, path)).await;
        unkeyed("/orders").await.is_first(200, "run 1");
        unkeyed("/payments").await.is_problem(400, ProblemType::MISSING_KEY.code());
        unkeyed("/imports").await.is_first(200, "run 2");
        server.post("/orders", "k").await.is_first(200, "run 3");
        server.post("/payments", "k").await.is_problem(400, ProblemType::INVALID_KEY.code());
        server.post("/payments", "\"k\"").await.is_first(200, "run 4");
        let large = server.post_body("/imports", "k", "12345").await;
        large.is_problem(413, problem::BODY_TOO_LARGE.code());
        let first = server.post_body("/imports", "k", "1234").await;
        server.post_body("/imports", "k", "5678").await.is_replay_of(&first);
        server.post_body("/orders", "other", "12345").await.is_first(200, "run 6");
    }
}

#[tokio::test]
async fn layers_of_different_names_do_not_share_keys() {
    for bench in both().await {
        let one = bench.serve(bench.layer().name("one"), number).await;
        let two = bench.serve(bench.layer().name("two"), number).await;
        one.post("/orders", "k").await.is_first(200, "run 1");
        two.post("/orders", "k").await.is_first(200, "run 2");
    }
}

/// A router that is nested sees less of the path than the client sent.
#[tokio::test]
async fn a_layer_in_a_nested_router_tells_whole_paths_apart() {
    for bench in both().await {
        let version = || counted(&bench.ledger, number).layer(bench.layer());
        let server = serve(Router::new().nest("/v1", version()).nest("/v2", version())).await;
        let one = server.post("/v1/orders", "k").await;
        one.is_first(200, "run 1");
        let two = server.post("/v2/orders", "k").await;
        two.is_first(200, "run 2");
        server.post("/v1/orders", "k").await.is_replay_of(&one);
        server.post("/v2/orders", "k").await.is_replay_of(&two);
    }
}

/// A layer that makes a response of a panic.
async fn catches_panics(request: Request, next: Next) -> Response {
    let handled = tokio::spawn(next.run(request)).await;
    handled.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

async fn panics_first(run: Run) -> String {
    assert_ne!(run.number, 1, "the handler panics, as it should");
    number(run).await
}

#[tokio::test]
async fn a_panic_that_is_caught_inside_does_not_block_its_key_and_one_that_is_caught_outside_does()
{
    for bench in both().await {
        let layer = bench.layer().abandon(Abandon::Block);
        let router = || counted(&bench.ledger, panics_first);
        let inside = router().layer(from_fn(catches_panics)).layer(layer.clone());
        let server = serve(inside).await;
        server.post("/orders", "inside").await.is_first(500, "");
        server.post("/orders", "inside").await.is_first(200, "run 2");
    }
    for bench in both().await {
        let layer = bench.layer().abandon(Abandon::Block);
        let outside = counted(&bench.ledger, panics_first).layer(layer);
        let server = serve(outside.layer(from_fn(catches_panics))).await;
        let failed = server.post("/orders", "outside").await;
        failed.is_problem(500, problem::HANDLER_FAILED.code());
        let repeat = server.post("/orders", "outside").await;
        repeat.is_problem(409, ProblemType::OUTCOME_UNKNOWN.code());
    }
}

/// The same router, left by everybody whose handler has started, as by a timeout.
fn with_timeout(router: Router, ledger: &Ledger) -> Router {
    let ledger = ledger.clone();
    router.layer(from_fn(move |request: Request, next: Next| {
        let (ledger, runs) = (ledger.clone(), ledger.total());
        let is_patient = request.headers().contains_key("patient");
        async move {
            tokio::select! {
                response = next.run(request) => response,
                () = until(|| !is_patient && ledger.total() > runs) => {
                    StatusCode::GATEWAY_TIMEOUT.into_response()
                }
            }
        }
    }))
}

#[tokio::test]
async fn a_timeout_outside_leaves_the_handler_running_and_one_inside_cuts_it_off() {
    for bench in both().await {
        let gate = Gate::shut();
        let router = || counted(&bench.ledger, held(&gate));
        let outside = with_timeout(router().layer(bench.layer()), &bench.ledger);
        let inside = with_timeout(router(), &bench.ledger).layer(bench.layer());
        let (outside, inside) = (serve(outside).await, serve(inside).await);
        let again = async |server: &Server, key: &str| {
            send(server.keyed("/orders", key).header("patient", "yes")).await
        };

        outside.post("/orders", "outside").await.is_first(504, "");
        let repeat = again(&outside, "outside").await;
        repeat.is_problem(409, ProblemType::IN_PROGRESS.code());
        gate.admit(1);
        until(|| bench.idem.in_flight() == 0).await;
        let replay = again(&outside, "outside").await;
        assert!(replay.is_replay() && replay.text() == "run 1", "{replay:?}");

        inside.post("/orders", "inside").await.is_first(504, "");
        assert_eq!(bench.runs(), 2);
        gate.admit(1);
        again(&inside, "inside").await.is_first(200, "run 3");
    }
}

/// A layer that marks every response.
async fn marks(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert("marked", HeaderValue::from_static("yes"));
    response
}

#[tokio::test]
async fn a_layer_outside_adds_its_headers_to_refusals_and_replays_too() {
    for bench in both().await {
        let router = counted(&bench.ledger, number).layer(bench.layer());
        let server = serve(router.layer(from_fn(marks))).await;
        for key in ["k", "k", "\"open"] {
            let reply = server.post("/orders", key).await;
            assert_eq!(reply.header("marked"), Some("yes"), "{reply:?}");
        }
        assert_eq!(bench.runs(), 1);
    }
}
