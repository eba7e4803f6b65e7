//! A store that does not answer: nothing runs without protection, and no answer is lost.

use crate::bench::{Bench, both};
use crate::client::{Reply, send};
use crate::server::{Gate, held_first, number};
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::testing::Verb;
use idempotent_runtime::{Config, Idempotency, OnStoreError, OnUnrecorded};
use std::time::Duration;
use support::{until, until_async};
use tokio::task::JoinHandle;

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
async fn while_the_store_is_down_requests_are_refused_and_nothing_runs() {
    for bench in both().await {
        let (neighbour, store) = bench.neighbour().await;
        let server = bench.serve(IdempotencyLayer::new(&neighbour, "shop"), number).await;
        store.all_down();
        let refused = answer(&bench, tokio::spawn(send(server.keyed("/orders", "k")))).await;
        refused.is_problem(503, ProblemType::STORE_UNAVAILABLE.code());
        assert!(refused.retry_after() >= 1);
        assert_eq!(bench.runs(), 0);
        // A request without a key needs no store.
        let unkeyed = send(server.request(http::Method::POST, "/orders")).await;
        unkeyed.is_first(200, "run 1");
        store.all_up();
        let second = answer(&bench, tokio::spawn(send(server.keyed("/orders", "k")))).await;
        second.is_first(200, "run 2");
    }
}

#[tokio::test]
async fn where_availability_goes_first_requests_run_without_the_store() {
    let config = Config::new().with_on_store_error(OnStoreError::Run);
    for bench in crate::bench::both_with(config).await {
        let (neighbour, store) = bench.neighbour().await;
        let server = bench.serve(IdempotencyLayer::new(&neighbour, "shop"), number).await;
        store.all_down();
        let ran = answer(&bench, tokio::spawn(send(server.keyed("/orders", "k")))).await;
        ran.is_not_stored(200, "run 1");
    }
}

#[tokio::test]
async fn if_the_store_goes_down_while_the_handler_runs_its_response_gets_through() {
    for bench in both().await {
        let gate = Gate::shut();
        let (neighbour, store) = bench.neighbour().await;
        let server =
            bench.serve(IdempotencyLayer::new(&neighbour, "shop"), held_first(&gate)).await;
        let first = tokio::spawn(send(server.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        store.all_down();
        gate.admit(1);
        let first = answer(&bench, first).await;
        first.is_not_stored(200, "run 1");
        // It is recorded as soon as the store answers again.
        let tries = store.calls(Verb::Complete);
        store.all_up();
        until(|| {
            bench.tick(Duration::from_millis(10));
            store.calls(Verb::Complete) > tries && neighbour.in_flight() == 0
        })
        .await;
        server.post("/orders", "k").await.is_replay_of(&first);
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn a_response_that_is_not_recorded_can_be_held_back_until_it_is() {
    let config = Config::new().with_on_unrecorded(OnUnrecorded::Error);
    for bench in crate::bench::both_with(config).await {
        let gate = Gate::shut();
        let (neighbour, store) = bench.neighbour().await;
        let server =
            bench.serve(IdempotencyLayer::new(&neighbour, "shop"), held_first(&gate)).await;
        let first = tokio::spawn(send(server.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        store.all_down();
        gate.admit(1);
        let first = answer(&bench, first).await;
        first.is_problem(503, ProblemType::NOT_RECORDED.code());
        assert!(first.retry_after() >= 1);
        store.all_up();
        until_async(|| async {
            bench.tick(Duration::from_millis(10));
            server.post("/orders", "k").await.is_replay()
        })
        .await;
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn behind_a_disabled_instance_every_request_is_handled() {
    let idem = Idempotency::builder().disabled().build().unwrap();
    for bench in both().await {
        let server = bench.serve(IdempotencyLayer::new(&idem, "shop"), number).await;
        server.post("/orders", "k").await.is_not_stored(200, "run 1");
        server.post("/orders", "k").await.is_not_stored(200, "run 2");
    }
}
