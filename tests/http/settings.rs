//! Settings of a layer, and their validation.

use crate::bench::{Bench, both, both_with};
use crate::client::{Reply, send};
use crate::server::{Gate, Run, handler, held, held_first, number, serve};
use axum::Router;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, Method, StatusCode};
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::testing::Verb;
use idempotent_runtime::{Config, OnStoreError, OnUnrecorded};
use std::convert::Infallible;
use std::time::Duration;
use support::{events, until, until_async};
use tokio::task::JoinHandle;

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn a_layer_that_cannot_work_refuses_keyed_requests_and_no_others() {
    for bench in both().await {
        for layer in [
            bench.layer().lease(Duration::from_millis(1)),
            bench.layer().retention(Duration::ZERO),
            bench.layer().max_run(Duration::ZERO),
            bench.layer().name(""),
        ] {
            let before = bench.runs();
            assert!(layer.clone().validate().is_err());
            let server = bench.serve(layer, number).await;
            let refused = server.post("/orders", "k").await;
            refused.is_problem(500, ProblemType::MISCONFIGURED.code());
            assert!(refused.text().contains("it was not handled"), "{refused:?}");
            assert_eq!(bench.runs(), before);
            assert_eq!(send(server.request(Method::POST, "/orders")).await.status, 200);
        }
        assert_eq!(bench.records().await, 0);
    }
}

/// Every request would go unprotected, whatever key its client sends.
#[tokio::test]
async fn a_layer_without_a_place_for_keys_refuses_all_that_it_guards() {
    for bench in both().await {
        for layer in [bench.layer(), bench.layer().require_key(), bench.layer().ambient_only()] {
            let server = bench.serve(layer.headers([]), number).await;
            for request in [server.keyed("/orders", "k"), server.request(Method::POST, "/orders")] {
                send(request).await.is_problem(500, ProblemType::MISCONFIGURED.code());
            }
            assert_eq!(bench.runs(), 0);
        }
        let server = bench.serve(bench.layer().headers([]), number).await;
        send(server.request(Method::GET, "/orders")).await.is_first(200, "run 1");
    }
}

/// axum applies the layers of a route when the router is served, and again for each connection.
#[tokio::test]
async fn a_layer_that_cannot_work_is_reported_once_when_it_is_applied() {
    const MESSAGE: &str = "the layer is misconfigured";
    for bench in both().await {
        let serve_with = async |layer: &IdempotencyLayer| {
            let route = || handler(&bench.ledger, number).layer::<_, Infallible>(layer.clone());
            let server = serve(Router::new().route("/a", route()).route("/b", route())).await;
            for path in ["/a", "/b", "/a"] {
                assert_eq!(send(server.request(Method::POST, path)).await.status, 200);
            }
        };
        let events = events::collect();
        let layer = bench.layer().lease(Duration::ZERO).retention(Duration::ZERO);
        serve_with(&layer).await;
        let reported = events.take(MESSAGE);
        let [event] = &reported[..] else { panic!("{reported:?}") };
        assert_eq!(event.fields["layer"], "shop");
        let error = &event.fields["error"];
        assert!(error.contains("`lease`") && error.contains("`retention`"), "{error}");
        serve_with(&bench.layer()).await;
        assert_eq!(events.take(MESSAGE).len(), 0);
    }
}

/// Number of warnings that clients share their keys.
async fn warnings(bench: &Bench, layer: IdempotencyLayer, credentials: HeaderMap) -> usize {
    let events = events::collect();
    let server = bench.serve(layer, number).await;
    for key in ["a", "b"] {
        let request = server.keyed("/orders", key).headers(credentials.clone());
        assert_eq!(send(request).await.status, 200);
        let unkeyed = server.request(Method::POST, "/orders").headers(credentials.clone());
        assert_eq!(send(unkeyed).await.status, 200);
    }
    let seen = events.take("requests carry credentials, and all clients share one set of keys");
    assert!(seen.iter().all(|event| event.fields["layer"] == "shop"), "{seen:?}");
    seen.len()
}

#[tokio::test]
async fn credentials_without_a_scope_are_warned_of_once() {
    for bench in both().await {
        for name in [AUTHORIZATION, COOKIE] {
            let credentials = HeaderMap::from_iter([(name, "ada".parse().unwrap())]);
            for layer in [bench.layer(), bench.layer().ambient_only()] {
                assert_eq!(warnings(&bench, layer.clone(), credentials.clone()).await, 1);
                // The same layer again, and a variation, which is another one.
                assert_eq!(warnings(&bench, layer.clone(), credentials.clone()).await, 0);
                let variation = layer.clone().optional_key();
                assert_eq!(warnings(&bench, variation, credentials.clone()).await, 1);
                let scoped = layer.scope(|_| Some("ada".to_owned()));
                assert_eq!(warnings(&bench, scoped, credentials.clone()).await, 0);
            }
        }
        assert_eq!(warnings(&bench, bench.layer(), HeaderMap::new()).await, 0);
    }
}

#[tokio::test]
async fn credentials_without_a_key_are_not_warned_of() {
    for bench in both().await {
        let events = events::collect();
        let server = bench.serve(bench.layer(), number).await;
        let unkeyed = server.request(Method::POST, "/orders").header(COOKIE, "ada");
        send(unkeyed).await.is_first(200, "run 1");
        let message = "requests carry credentials, and all clients share one set of keys";
        assert_eq!(events.take(message).len(), 0);
    }
}

/// A scope that something else has put in place keeps clients apart as well.
#[tokio::test]
async fn credentials_in_a_scope_from_outside_are_not_warned_of() {
    for bench in both().await {
        let events = events::collect();
        let router = Router::new().fallback(handler(&bench.ledger, number)).layer(bench.layer());
        let scoped = router.layer(axum::middleware::from_fn(
            async |request: axum::extract::Request, next: axum::middleware::Next| {
                ambient::scope(Ambient::new().scope("ada"), next.run(request)).await
            },
        ));
        let server = serve(scoped).await;
        send(server.keyed("/orders", "k").header(COOKIE, "ada")).await.is_first(200, "run 1");
        let message = "requests carry credentials, and all clients share one set of keys";
        assert_eq!(events.take(message).len(), 0);
    }
}

/// The status that the path names.
async fn status(run: Run) -> (StatusCode, String) {
    let status = run.parts.uri.path()[1..].parse().unwrap();
    (StatusCode::from_u16(status).unwrap(), number(run).await)
}

#[tokio::test]
async fn how_long_a_response_is_kept_can_depend_on_it() {
    for bench in both().await {
        let layer = bench.layer().retention(2 * HOUR).retention_by(|status, headers| {
            assert!(headers.contains_key("content-type"));
            match status.as_u16() {
                201 => Some(HOUR),
                202 => Some(Duration::ZERO),
                203 => panic!("the choice panics, as it should"),
                _ => None,
            }
        });
        let server = bench.serve(layer, status).await;
        let paths = ["/200", "/201", "/202", "/203"];
        let mut first = Vec::new();
        for path in paths {
            let reply = server.post(path, "k").await;
            // One that frees its key is as any other that does.
            assert_eq!(reply.header("idempotent-stored"), None, "{path}");
            first.push(reply);
        }
        let replayed = async || -> Vec<bool> {
            let mut replayed = Vec::new();
            for (path, first) in paths.iter().zip(&first) {
                let again = server.post(path, "k").await;
                assert_eq!(again.status, first.status);
                replayed.push(again.is_replay());
            }
            replayed
        };
        assert_eq!(replayed().await, [true, true, false, true]);
        bench.pass(HOUR).await;
        assert_eq!(replayed().await, [true, false, false, true]);
        bench.pass(HOUR).await;
        assert!(!server.post("/200", "k").await.is_replay());
        assert!(!server.post("/203", "k").await.is_replay());
    }
}

#[tokio::test]
async fn retention_is_the_configured_one_only_where_that_is_asked_for() {
    for bench in both_with(Config::new().with_expire(HOUR)).await {
        let own = bench.serve(bench.layer(), number).await;
        let configured = bench.serve(bench.layer().retention_from_config(), number).await;
        let choice = bench.layer().retention_from_config().retention_by(|_, _| None);
        let chosen = bench.serve(choice, number).await;
        let mut first = Vec::new();
        for (server, path) in [(&own, "/own"), (&configured, "/configured"), (&chosen, "/chosen")] {
            first.push(server.post(path, "k").await);
        }
        configured.post("/configured", "k").await.is_replay_of(&first[1]);
        bench.pass(HOUR).await;
        own.post("/own", "k").await.is_replay_of(&first[0]);
        assert!(!configured.post("/configured", "k").await.is_replay());
        assert!(!chosen.post("/chosen", "k").await.is_replay());
    }
}

#[tokio::test]
async fn a_repeat_waits_as_configured_only_where_that_is_asked_for() {
    let config = Config::new().with_wait(Duration::from_secs(60));
    for bench in both_with(config).await {
        let gate = Gate::shut();
        let server = bench.serve(bench.layer(), held(&gate)).await;
        let first = tokio::spawn(send(server.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        server.post("/orders", "k").await.is_problem(409, ProblemType::IN_PROGRESS.code());
        let (neighbour, store) = bench.neighbour().await;
        let layer = IdempotencyLayer::new(&neighbour, "shop").wait_from_config();
        let patient = bench.serve(layer, number).await;
        let repeat = tokio::spawn(send(patient.keyed("/orders", "k")));
        store.called(Verb::Watch, 1).await;
        gate.admit(1);
        repeat.await.unwrap().is_replay_of(&first.await.unwrap());
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn a_layer_has_a_message_of_its_own_for_requests_in_progress() {
    for bench in both_with(Config::new().with_message("the configured text")).await {
        let gate = Gate::shut();
        let server = bench.serve(bench.layer(), held(&gate)).await;
        let own = bench.serve(bench.layer().message("your order is being packed"), number).await;
        let first = tokio::spawn(send(server.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        let told = async |server: &crate::server::Server, text: &str| {
            let repeat = server.post("/orders", "k").await;
            repeat.is_problem(409, ProblemType::IN_PROGRESS.code());
            assert!(repeat.text().contains(text), "{repeat:?}");
        };
        told(&server, "the configured text").await;
        told(&own, "your order is being packed").await;
        gate.admit(1);
        first.await.unwrap().is_first(200, "run 1");
    }
}

/// The answer, while the clock of the memory store's callers moves on.
async fn answer(bench: &Bench, request: JoinHandle<Reply>) -> Reply {
    until(|| {
        bench.tick(Duration::from_millis(10));
        request.is_finished()
    })
    .await;
    request.await.unwrap()
}

#[tokio::test]
async fn a_layer_can_go_on_without_the_store_whatever_others_do() {
    for bench in both().await {
        let (neighbour, store) = bench.neighbour().await;
        let layer = IdempotencyLayer::new(&neighbour, "shop");
        let careful = bench.serve(layer.clone(), number).await;
        let open = bench.serve(layer.on_store_error(OnStoreError::Run), number).await;
        store.all_down();
        let refused = answer(&bench, tokio::spawn(send(careful.keyed("/orders", "k")))).await;
        refused.is_problem(503, ProblemType::STORE_UNAVAILABLE.code());
        let ran = answer(&bench, tokio::spawn(send(open.keyed("/orders", "k")))).await;
        assert_eq!((ran.status.as_u16(), ran.text()), (200, "run 1"));
        assert_eq!(ran.header("idempotent-stored"), Some("false"));
    }
}

#[tokio::test]
async fn a_layer_can_hold_back_what_is_not_recorded_whatever_others_do() {
    for bench in both().await {
        let gate = Gate::shut();
        let (neighbour, store) = bench.neighbour().await;
        let layer = IdempotencyLayer::new(&neighbour, "shop").on_unrecorded(OnUnrecorded::Error);
        let server = bench.serve(layer, held_first(&gate)).await;
        let first = tokio::spawn(send(server.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        store.all_down();
        gate.admit(1);
        let first = answer(&bench, first).await;
        first.is_problem(503, ProblemType::NOT_RECORDED.code());
    }
}

/// A handler that hangs holds its key for `max_run` and not for ever.
#[tokio::test]
async fn a_handler_that_runs_for_too_long_loses_its_key() {
    let short = Duration::from_millis(300);
    for bench in both().await {
        let gate = Gate::shut();
        let layer = bench.layer().lease(short).max_run(short);
        let server = bench.serve(layer, held_first(&gate)).await;
        let first = tokio::spawn(send(server.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        until_async(|| async {
            bench.tick(Duration::from_millis(10));
            server.post("/orders", "k").await.status == 200
        })
        .await;
        assert_eq!(bench.runs(), 2);
        gate.admit(1);
        first.await.unwrap().is_problem(409, ProblemType::SUPERSEDED.code());
    }
}
