//! Leases and retention: keys whose server is slow, dead, or late.

use crate::bench::{Bench, both};
use crate::client::{Reply, send};
use crate::server::{Gate, Server, held, held_first, number};
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::testing::{Fault, FaultStore, Verb};
use std::time::Duration;
use support::until;
use tokio::task::JoinHandle;

const LEASE: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_lease_is_renewed_while_the_handler_runs() {
    let lease = Duration::from_secs(2);
    for bench in both().await {
        let gate = Gate::shut();
        let (neighbour, store) = bench.neighbour().await;
        let layer = IdempotencyLayer::new(&neighbour, "shop").lease(lease);
        let slow = bench.serve(layer, held(&gate)).await;
        let first = tokio::spawn(send(slow.keyed("/orders", "k")));
        until(|| bench.runs() == 1).await;
        let record = bench.record("/orders", "k").await.unwrap();
        assert_eq!(record.head.attempt.claim.lease(), lease);
        // Renewed after a third of a lease: four times is longer than the lease.
        for renewals in 1..=4 {
            until(|| {
                bench.tick(lease / 30);
                store.answers(Verb::Renew) >= renewals
            })
            .await;
        }
        let server = bench.serve(bench.layer(), number).await;
        let repeat = server.post("/orders", "k").await;
        repeat.is_problem(409, ProblemType::IN_PROGRESS.code());
        gate.admit(1);
        let first = first.await.unwrap();
        first.is_first(200, "run 1");
        server.post("/orders", "k").await.is_replay_of(&first);
        assert_eq!(bench.runs(), 1);
    }
}

/// A server whose handler runs, and from which the store hears no more.
struct Silent {
    store: FaultStore,
    gate: Gate,
    first: JoinHandle<Reply>,
    _server: Server,
}

async fn silent(bench: &Bench) -> Silent {
    let gate = Gate::shut();
    let (neighbour, store) = bench.neighbour().await;
    let server = bench.serve(IdempotencyLayer::new(&neighbour, "shop"), held_first(&gate)).await;
    let first = tokio::spawn(send(server.keyed("/orders", "k")));
    until(|| bench.runs() == 1).await;
    for verb in Verb::ALL {
        store.fault_always(verb, Fault::Hang);
    }
    Silent { store, gate, first, _server: server }
}

#[tokio::test]
async fn the_key_of_a_server_that_died_is_in_progress_until_its_lease_ends_and_then_runs() {
    for bench in both().await {
        let silent = silent(&bench).await;
        let server = bench.serve(bench.layer(), number).await;
        bench.pass(LEASE / 2).await;
        let early = server.post("/orders", "k").await;
        early.is_problem(409, ProblemType::IN_PROGRESS.code());
        assert!((1..=15).contains(&early.retry_after()), "{early:?}");
        bench.pass(LEASE / 2 + MOMENT).await;
        let second = server.post("/orders", "k").await;
        second.is_first(200, "run 2");
        server.post("/orders", "k").await.is_replay_of(&second);
        assert_eq!(bench.runs(), 2);
        silent.first.abort();
    }
}

#[tokio::test]
async fn a_server_that_comes_back_late_can_neither_complete_nor_free_the_key() {
    for bench in both().await {
        let silent = silent(&bench).await;
        bench.pass(LEASE + MOMENT).await;
        let server = bench.serve(bench.layer(), number).await;
        let second = server.post("/orders", "k").await;
        second.is_first(200, "run 2");
        let record = bench.record("/orders", "k").await.unwrap();
        silent.store.all_up();
        silent.gate.admit(1);
        let late = silent.first.await.unwrap();
        late.is_problem(409, ProblemType::SUPERSEDED.code());
        assert!(late.text().contains("it was handled"), "{late:?}");
        let after = bench.record("/orders", "k").await.unwrap();
        assert_eq!((after.head, after.value), (record.head, record.value));
        server.post("/orders", "k").await.is_replay_of(&second);
        assert_eq!(bench.runs(), 2);
    }
}

#[tokio::test]
async fn when_its_retention_is_over_a_key_runs_afresh() {
    let day = Duration::from_secs(24 * 3600);
    let hour = Duration::from_secs(3600);
    for bench in both().await {
        for (key, layer, retention) in
            [("default", bench.layer(), day), ("chosen", bench.layer().retention(hour), hour)]
        {
            let server = bench.serve(layer, number).await;
            let first = server.post(&format!("/{key}"), key).await;
            // The slack is for time that passes by itself.
            bench.pass(retention - Duration::from_secs(60)).await;
            server.post(&format!("/{key}"), key).await.is_replay_of(&first);
            bench.pass(Duration::from_secs(60)).await;
            let afresh = server.post_body(&format!("/{key}"), key, "another body").await;
            assert_eq!(afresh.status, 200, "{afresh:?}");
            assert!(!afresh.is_replay());
            assert_eq!(bench.ledger.ran(&format!("/{key}")), 2);
        }
    }
}
