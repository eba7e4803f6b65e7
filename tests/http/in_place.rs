//! A handler runs on the task of its connection while the client is connected.

use crate::bench::{Bench, both};
use crate::client::send;
use crate::server::{Departures, Gate, counted, held, held_first, number, serve};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use idempotent_http::{FormTokens, IdempotencyLayer, problem};
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::{Config, Idempotency};
use support::until;
use tower::limit::GlobalConcurrencyLimitLayer;

tokio::task_local! {
    static USER: &'static str;
}

/// Middleware as axum's documentation teaches it: who is logged in is a task-local.
async fn log_in(request: Request, next: Next) -> axum::response::Response {
    USER.scope("ada", next.run(request)).await
}

#[tokio::test]
async fn a_handler_sees_task_locals_of_outer_middleware_after_it_has_waited() {
    for bench in both().await {
        let answer = async |_| {
            tokio::task::yield_now().await;
            USER.try_with(|user| user.to_string()).unwrap_or_else(|_| "nobody".to_owned())
        };
        let router = counted(&bench.ledger, answer).layer(bench.layer()).layer(from_fn(log_in));
        let server = serve(router).await;
        server.post("/orders", "k").await.is_first(200, "ada");
    }
}

#[tokio::test]
async fn a_forms_handler_sees_task_locals_of_outer_middleware_after_it_has_waited() {
    for bench in both().await {
        let answer = async |_| {
            tokio::task::yield_now().await;
            USER.try_with(|user| user.to_string()).unwrap_or_else(|_| "nobody".to_owned())
        };
        let tokens = FormTokens::new(&bench.idem, "order");
        let token = tokens.issue(None).await.unwrap();
        let router = counted(&bench.ledger, answer).layer(tokens).layer(from_fn(log_in));
        let server = serve(router).await;
        let form = server.request(http::Method::POST, "/orders").header("form-token", token);
        assert_eq!(send(form).await.text(), "ada");
    }
}

#[tokio::test]
async fn handlers_whose_clients_have_gone_are_bounded_and_none_is_ended() {
    for bench in both().await {
        let (gate, departures) = (Gate::shut(), Departures::default());
        let layer = bench.layer().max_orphaned_handlers(2);
        let router = departures.watch(counted(&bench.ledger, held(&gate)).layer(layer.clone()));
        let server = serve(router).await;
        let open = bench.serve(layer, number).await;
        let done = open.post("/orders", "done").await;
        for (gone, key) in ["a", "b"].into_iter().enumerate() {
            let runs = bench.runs();
            let client = tokio::spawn(send(server.keyed("/orders", key)));
            until(|| bench.runs() == runs + 1).await;
            client.abort();
            until(|| departures.count() == gone + 1).await;
        }
        let (runs, records) = (bench.runs(), bench.records().await);
        let refused = open.post("/orders", "new").await;
        refused.is_problem(503, problem::OVERLOADED.code());
        assert_eq!(refused.retry_after(), 1);
        assert_eq!((bench.runs(), bench.records().await), (runs, records), "nothing was begun");
        // Repeats are answered, finished or in flight, and requests without a key are none of this.
        open.post("/orders", "done").await.is_replay_of(&done);
        open.post("/orders", "a").await.is_problem(409, ProblemType::IN_PROGRESS.code());
        let unkeyed = send(open.request(http::Method::POST, "/orders")).await;
        assert_eq!(unkeyed.status, 200);
        gate.admit(2);
        until(|| bench.idem.in_flight() == 0).await;
        for key in ["a", "b"] {
            assert!(open.post("/orders", key).await.is_replay(), "it was ended");
        }
        assert_eq!(open.post("/orders", "new").await.status, 200);
    }
}

/// A permit of a limit outside ends with its client, and the handler goes on.
#[tokio::test]
async fn clients_that_leave_start_no_more_handlers_behind_a_concurrency_limit_than_may_be_orphaned()
{
    for bench in both().await {
        let (gate, departures) = (Gate::shut(), Departures::default());
        let layer = bench.layer().max_orphaned_handlers(3);
        let router = counted(&bench.ledger, held(&gate)).layer(layer);
        let limited = router.layer(GlobalConcurrencyLimitLayer::new(2));
        let server = serve(departures.watch(limited)).await;
        for key in 0..40 {
            let runs = bench.runs();
            let client = tokio::spawn(send(server.keyed("/orders", &key.to_string())));
            until(|| bench.runs() > runs || client.is_finished()).await;
            client.abort();
            until(|| departures.count() == bench.runs()).await;
        }
        assert_eq!(bench.runs(), 3);
        gate.admit(3);
        until(|| bench.idem.in_flight() == 0).await;
    }
}

#[tokio::test]
async fn a_form_is_refused_and_its_token_stays_good_while_too_many_handlers_are_orphaned() {
    for bench in both().await {
        let (gate, departures) = (Gate::shut(), Departures::default());
        let tokens = FormTokens::new(&bench.idem, "order").max_orphaned_handlers(1);
        let issue = async || tokens.issue(None).await.unwrap();
        let router = counted(&bench.ledger, held(&gate)).layer(tokens.clone());
        let server = serve(departures.watch(router)).await;
        let form = |token: &str| {
            send(server.request(http::Method::POST, "/orders").header("form-token", token))
        };
        let client = tokio::spawn(form(&issue().await));
        until(|| bench.runs() == 1).await;
        client.abort();
        until(|| departures.count() == 1).await;
        let token = issue().await;
        form(&token).await.is_problem(503, problem::OVERLOADED.code());
        assert_eq!(bench.runs(), 1);
        gate.admit(2);
        until(|| bench.idem.in_flight() == 0).await;
        let mut answer = form(&token).await;
        // The count falls when the handler has ended, a moment after its call.
        while answer.status == 503 {
            answer = form(&token).await;
        }
        assert_eq!(answer.text(), "run 2");
    }
}

/// Nothing else would bound them: there is no record that a second request finds.
#[tokio::test]
async fn handlers_are_bounded_where_the_instance_is_turned_off_too() {
    let bench = Bench::memory(Config::new());
    let (gate, departures) = (Gate::shut(), Departures::default());
    let off = Idempotency::builder().disabled().build().unwrap();
    let layer = IdempotencyLayer::new(&off, "shop").max_orphaned_handlers(1);
    let router = counted(&bench.ledger, held_first(&gate)).layer(layer);
    let server = serve(departures.watch(router)).await;
    let client = tokio::spawn(send(server.keyed("/orders", "gone")));
    until(|| bench.runs() == 1).await;
    client.abort();
    until(|| departures.count() == 1).await;
    server.post("/orders", "k").await.is_problem(503, problem::OVERLOADED.code());
    assert_eq!(bench.runs(), 1);
    gate.admit(1);
    // The count falls when the handler has ended.
    let mut answer = server.post("/orders", "k").await;
    while answer.status == 503 {
        answer = server.post("/orders", "k").await;
    }
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "run 2"));
}
