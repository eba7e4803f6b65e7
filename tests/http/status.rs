//! The service that reports the state of a key.

use crate::bench::{Bench, both};
use crate::client::{KEY, Reply, send};
use crate::server::{Gate, Run, Server, handler, held, number, serve};
use crate::sizes::original_status;
use axum::Router;
use axum::response::IntoResponse as _;
use http::{Method, StatusCode};
use idempotent_http::{IdempotencyLayer, StatusService, Streaming, problem};
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Abandon, Error, Mode};
use std::time::Duration;
use support::{events, until};

/// `orders` behind `layer` at `/orders`, and where its keys stand at `/orders/status`.
async fn serve_both(
    layer: &IdempotencyLayer,
    status: StatusService,
    orders: axum::routing::MethodRouter,
) -> Server {
    let router = Router::new().route("/orders", orders).layer(layer.clone());
    serve(router.route_service("/orders/status", status)).await
}

fn of_orders(layer: &IdempotencyLayer) -> StatusService {
    layer.status().for_route(Method::POST, "/orders")
}

async fn ask(server: &Server, key: &str) -> Reply {
    let reply = send(server.request(Method::GET, "/orders/status").header(KEY, key)).await;
    assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
    reply
}

async fn serves(bench: &Bench, gate: &Gate) -> Server {
    let layer = bench.layer();
    serve_both(&layer, of_orders(&layer), handler(&bench.ledger, held(gate))).await
}

#[tokio::test]
async fn a_key_is_unknown_then_in_progress_then_answered() {
    for bench in both().await {
        let gate = Gate::shut();
        let server = serves(&bench, &gate).await;
        ask(&server, "k").await.is_problem(404, problem::UNKNOWN_KEY.code());
        assert_eq!((bench.runs(), bench.records().await), (0, 0));

        let first = tokio::spawn(send(server.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        let running = ask(&server, "k").await;
        assert_eq!((running.status, running.retry_after()), (StatusCode::ACCEPTED, 1));
        assert_eq!(running.text(), r#"{"state":"in-progress"}"#);

        gate.admit(1);
        first.await.unwrap().is_first(200, "run 1");
        for key in ["k", "\"k\""] {
            let done = ask(&server, key).await;
            assert_eq!((done.status, done.text()), (StatusCode::OK, "run 1"));
            assert!(done.is_replay());
            assert_eq!(done.header("idempotent-status"), Some("200"));
        }
        ask(&server, "other").await.is_problem(404, problem::UNKNOWN_KEY.code());
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn the_wait_that_a_layer_chose_holds_here_as_well() {
    for bench in both().await {
        let gate = Gate::shut();
        let layer = bench.layer().retry_after(Duration::from_secs(7));
        let orders = handler(&bench.ledger, held(&gate));
        let server = serve_both(&layer, of_orders(&layer), orders).await;
        let first = tokio::spawn(send(server.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        assert_eq!(ask(&server, "k").await.retry_after(), 7);
        gate.admit(1);
        first.await.unwrap();
    }
}

/// A stored 404 is not an unknown key, and a stored redirect is nothing to follow.
#[tokio::test]
async fn an_answer_has_its_own_status_in_a_header_and_its_headers_and_body_as_they_were() {
    for bench in both().await {
        let layer = bench.layer();
        let answers = async |run: Run| match run.number {
            1 => (StatusCode::NOT_FOUND, [("x-own", "1")], "no lamp").into_response(),
            2 => (StatusCode::SEE_OTHER, [("location", "/orders/2")]).into_response(),
            _ => (StatusCode::CREATED, [("cache-control", "max-age=9")], "made").into_response(),
        };
        let server = serve_both(&layer, of_orders(&layer), handler(&bench.ledger, answers)).await;
        for key in ["1", "2", "3"] {
            server.post("/orders", key).await;
        }
        let [one, two, three] =
            [ask(&server, "1").await, ask(&server, "2").await, ask(&server, "3").await];
        for (reply, status) in [(&one, "404"), (&two, "303"), (&three, "201")] {
            assert_eq!(
                (reply.status, reply.header("idempotent-status")),
                (StatusCode::OK, Some(status))
            );
            assert_eq!(reply.header("idempotency-problem"), None);
        }
        assert_eq!((one.text(), one.header("x-own")), ("no lamp", Some("1")));
        assert_eq!(two.header("location"), Some("/orders/2"));
        assert_eq!(three.text(), "made");
        let head = server.request(Method::HEAD, "/orders/status").header(KEY, "3");
        let head = send(head).await;
        assert_eq!((head.status, head.text()), (StatusCode::OK, ""));
        assert_eq!(head.header("idempotent-status"), Some("201"));
    }
}

#[tokio::test]
async fn the_key_of_another_principal_is_unknown() {
    for bench in both().await {
        let gate = Gate::shut();
        let layer =
            bench.layer().scope(|parts| Some(parts.headers.get("user")?.to_str().ok()?.to_owned()));
        let orders = handler(&bench.ledger, held(&gate));
        let server = serve_both(&layer, of_orders(&layer), orders).await;
        let ask_as = async |user: &str| {
            let request = server.request(Method::GET, "/orders/status").header(KEY, "k");
            send(request.header("user", user)).await
        };
        let unknown = ask_as("bob").await;
        let first = tokio::spawn(send(server.keyed("/orders", "k").header("user", "ada")));
        until(|| bench.runs() == 1).await;
        assert_eq!(ask_as("ada").await.status, 202);
        let running = ask_as("bob").await;
        gate.admit(1);
        first.await.unwrap();
        assert_eq!(ask_as("ada").await.text(), "run 1");
        let done = ask_as("bob").await;
        // Nothing tells them apart from a key that does not exist.
        for reply in [&unknown, &running, &done] {
            reply.is_problem(404, problem::UNKNOWN_KEY.code());
            assert_eq!(reply.body, unknown.body);
        }
        ask(&server, "k").await.is_problem(403, problem::SCOPE_MISSING.code());
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn keys_that_have_no_answer_say_why() {
    for bench in both().await {
        let layer = bench.layer().abandon(Abandon::Block);
        let answers = async |run: Run| match run.number {
            1 => StatusCode::BAD_GATEWAY.into_response(),
            2 => (axum::Extension(Streaming), "flows").into_response(),
            _ => panic!("the handler panics, as it should"),
        };
        let server = serve_both(&layer, of_orders(&layer), handler(&bench.ledger, answers)).await;
        for key in ["failed", "stream", "blocked"] {
            server.post("/orders", key).await;
        }
        ask(&server, "failed").await.is_problem(404, problem::UNKNOWN_KEY.code());
        let stream = ask(&server, "stream").await;
        assert_eq!(original_status(&stream), Some(200));
        ask(&server, "blocked").await.is_problem(409, ProblemType::OUTCOME_UNKNOWN.code());
        assert_eq!(bench.runs(), 3);
    }
}

#[tokio::test]
async fn a_key_whose_server_died_is_in_progress_until_its_lease_ends_and_then_unknown() {
    for bench in both().await {
        let gate = Gate::shut();
        let (neighbour, store) = bench.neighbour().await;
        let dying = bench.serve(IdempotencyLayer::new(&neighbour, "shop"), held(&gate)).await;
        let first = tokio::spawn(send(dying.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        for verb in idempotent_runtime::testing::Verb::ALL {
            store.fault_always(verb, idempotent_runtime::testing::Fault::Hang);
        }
        let server = serves(&bench, &gate).await;
        assert_eq!(ask(&server, "k").await.status, 202);
        bench.pass(Duration::from_secs(31)).await;
        ask(&server, "k").await.is_problem(404, problem::UNKNOWN_KEY.code());
        first.abort();
    }
}

#[tokio::test]
async fn what_is_not_a_question_about_a_key_is_refused() {
    for bench in both().await {
        let server = serves(&bench, &Gate::shut()).await;
        let without = send(server.request(Method::GET, "/orders/status")).await;
        without.is_problem(400, ProblemType::MISSING_KEY.code());
        ask(&server, "\"open").await.is_problem(400, ProblemType::INVALID_KEY.code());
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let reply = send(server.request(method, "/orders/status").header(KEY, "k")).await;
            assert_eq!(
                (reply.status, reply.header("allow")),
                (StatusCode::METHOD_NOT_ALLOWED, Some("GET, HEAD"))
            );
            assert_eq!(reply.header("cache-control"), Some("no-store"));
        }
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_told() {
    for bench in both().await {
        let (neighbour, store) = bench.neighbour().await;
        let layer = IdempotencyLayer::new(&neighbour, "shop");
        let server = serve_both(&layer, of_orders(&layer), handler(&bench.ledger, number)).await;
        store.all_down();
        let refused = ask(&server, "k").await;
        refused.is_problem(503, ProblemType::STORE_UNAVAILABLE.code());
        assert!(refused.retry_after() >= 1);
    }
}

#[tokio::test]
async fn the_route_is_its_own_path_or_named_in_the_query_unless_it_is_fixed() {
    for bench in both().await {
        let layer = bench.layer().methods([Method::POST, Method::PATCH]);
        let orders =
            || handler(&Ledger::new(), number).layer::<_, std::convert::Infallible>(layer.clone());
        let nested = Router::new().route("/orders", orders().get_service(layer.status()));
        let fixed = of_orders(&layer);
        let router = Router::new()
            .nest("/v1", nested)
            .route_service("/status", layer.status())
            .route_service("/fixed", fixed);
        let server = serve(router).await;
        let patch = server.request(Method::PATCH, "/v1/orders").header(KEY, "p");
        assert_eq!(send(patch).await.status, 200);
        assert_eq!(server.post("/v1/orders", "k").await.status, 200);

        let ask = async |path: &str, key: &str| {
            send(server.request(Method::GET, path).header(KEY, key)).await.status.as_u16()
        };
        assert_eq!(ask("/v1/orders", "k").await, 200);
        assert_eq!(ask("/v1/orders", "p").await, 404);
        assert_eq!(ask("/v1/orders?method=PATCH", "p").await, 200);
        assert_eq!(ask("/status?path=/v1/orders", "k").await, 200);
        assert_eq!(ask("/status?path=%2Fv1%2Forders&method=PATCH", "p").await, 200);
        assert_eq!(ask("/status?path=/v1/orders&method=b%20d", "p").await, 404);
        assert_eq!(ask("/status", "k").await, 404);
        assert_eq!(ask("/fixed?path=/v1/orders", "k").await, 404);
    }
}

#[tokio::test]
async fn the_key_may_be_in_the_query_where_the_layer_takes_it_from_there() {
    for bench in both().await {
        let layer = bench.layer().query_parameter("token");
        let server = serve_both(&layer, of_orders(&layer), handler(&bench.ledger, number)).await;
        send(server.request(Method::POST, "/orders?token=k")).await.is_first(200, "run 1");
        let done = send(server.request(Method::GET, "/orders/status?token=k")).await;
        assert_eq!((done.status, done.text()), (StatusCode::OK, "run 1"));
    }
}

/// The client is told to tell the operators, who find the reason in the log only.
#[tokio::test]
async fn an_answer_that_cannot_be_read_is_an_error_that_operators_hear_of() {
    for bench in both().await {
        let server = serves(&bench, &Gate::shut()).await;
        let damaged = bench.operation("/orders", "k").mode(Mode::Strong);
        damaged.run(async { Ok::<_, Error>(42) }).await.unwrap();
        let events = events::collect();
        ask(&server, "k").await.is_problem(500, ProblemType::RESULT_UNREADABLE.code());
        let [told] = &events.take("refused")[..] else { panic!("not told") };
        assert!(told.fields.contains_key("error"), "{told:?}");
    }
}
