//! Clients that begin too many keys.

use crate::bench::{Bench, both, both_with};
use crate::client::{Reply, send};
use crate::server::{Departures, Gate, Run, Server, counted, held, number, serve};
use http::StatusCode;
use idempotent_http::{IdempotencyLayer, problem};
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::testing::Verb;
use idempotent_runtime::{Config, Idempotency, OnStoreError};
use std::time::Duration;
use support::until;

const HOUR: Duration = Duration::from_secs(3_600);

fn by_user(layer: IdempotencyLayer) -> IdempotencyLayer {
    layer.scope(|parts| Some(parts.headers.get("user")?.to_str().ok()?.to_owned()))
}

#[track_caller]
fn is_over(reply: &Reply) {
    reply.is_problem(429, problem::TOO_MANY_KEYS.code());
    assert!((3_500..=3_600).contains(&reply.retry_after()), "{reply:?}");
    assert!(reply.text().contains("it was not handled"), "{reply:?}");
}

#[tokio::test]
async fn new_keys_over_the_limit_are_refused_and_nothing_is_stored() {
    for bench in both().await {
        let layer = bench.layer().new_keys_per_scope(2, HOUR);
        let server = bench.serve(layer, number).await;
        let one = server.post("/orders", "1").await;
        // However often it is repeated, it is one key.
        for _ in 0..5 {
            server.post("/orders", "1").await.is_replay_of(&one);
        }
        let two = server.post("/orders", "2").await;
        two.is_first(200, "run 2");
        for key in ["3", "4", "3"] {
            is_over(&server.post("/orders", key).await);
        }
        assert_eq!((bench.runs(), bench.records().await), (2, 2));
        server.post("/orders", "1").await.is_replay_of(&one);
        server.post("/orders", "2").await.is_replay_of(&two);
        let other = server.post_body("/orders", "2", "another body").await;
        other.is_problem(422, ProblemType::PAYLOAD_MISMATCH.code());
        // A request without a key begins none.
        let unkeyed = send(server.request(http::Method::POST, "/orders")).await;
        unkeyed.is_first(200, "run 3");
    }
}

#[tokio::test]
async fn scopes_are_counted_apart_and_clones_of_a_layer_together() {
    for bench in both().await {
        let layer = by_user(bench.layer()).new_keys_per_scope(1, HOUR);
        let one = bench.serve(layer.clone(), number).await;
        let two = bench.serve(layer.require_key(), number).await;
        let post = async |server: &Server, user: &str, key: &str| {
            send(server.keyed("/orders", key).header("user", user)).await
        };
        post(&one, "ada", "1").await.is_first(200, "run 1");
        is_over(&post(&two, "ada", "2").await);
        post(&two, "bob", "1").await.is_first(200, "run 2");
        is_over(&post(&one, "bob", "2").await);
        assert!(post(&two, "ada", "1").await.is_replay());
        assert_eq!(bench.records().await, 2);
    }
}

#[tokio::test]
async fn of_many_new_keys_at_once_as_many_run_as_may() {
    for bench in both().await {
        let gate = Gate::shut();
        let layer = bench.layer().new_keys_per_scope(5, HOUR);
        let server = bench.serve(layer, held(&gate)).await;
        let sent: Vec<_> = (0..50)
            .map(|key| tokio::spawn(send(server.keyed("/orders", &key.to_string()))))
            .collect();
        until(|| sent.iter().filter(|it| it.is_finished()).count() == 45).await;
        assert_eq!((bench.runs(), bench.records().await), (5, 5));
        gate.admit(5);
        let mut refused = 0;
        for reply in sent {
            let reply = reply.await.unwrap();
            if reply.status != StatusCode::OK {
                is_over(&reply);
                refused += 1;
            }
        }
        assert_eq!((refused, bench.runs()), (45, 5));
    }
}

#[tokio::test]
async fn many_requests_with_one_new_key_are_one_key() {
    for bench in both().await {
        let gate = Gate::shut();
        let layer = bench.layer().new_keys_per_scope(1, HOUR);
        let server = bench.serve(layer, held(&gate)).await;
        let sent: Vec<_> =
            (0..50).map(|_| tokio::spawn(send(server.keyed("/orders", "k")))).collect();
        until(|| sent.iter().filter(|it| it.is_finished()).count() == 49).await;
        gate.admit(1);
        let mut first = 0;
        for reply in sent {
            let reply = reply.await.unwrap();
            match reply.status.as_u16() {
                200 => first += 1,
                _ => reply.is_problem(409, ProblemType::IN_PROGRESS.code()),
            }
        }
        assert_eq!((first, bench.runs()), (1, 1));
    }
}

#[tokio::test]
async fn a_key_that_failed_may_be_tried_again_over_the_limit() {
    for bench in both().await {
        let layer = bench.layer().new_keys_per_scope(1, HOUR);
        let fails_first = async |run: Run| match run.number {
            1 | 2 => Err(StatusCode::BAD_GATEWAY),
            _ => Ok(number(run).await),
        };
        let server = bench.serve(layer, fails_first).await;
        for _ in 0..2 {
            server.post("/orders", "k").await.is_first(502, "");
        }
        is_over(&server.post("/orders", "other").await);
        server.post("/orders", "k").await.is_first(200, "run 3");
    }
}

/// What a store refuses was not begun.
#[tokio::test]
async fn keys_that_are_not_begun_do_not_count() {
    for bench in both().await {
        let (neighbour, store) = bench.neighbour().await;
        let layer = IdempotencyLayer::new(&neighbour, "shop").new_keys_per_scope(1, HOUR);
        let server = bench.serve(layer, number).await;
        store.all_down();
        for key in ["1", "2"] {
            let refused = tokio::spawn(send(server.keyed("/orders", key)));
            until(|| {
                bench.tick(Duration::from_millis(10));
                refused.is_finished()
            })
            .await;
            let refused = refused.await.unwrap();
            refused.is_problem(503, ProblemType::STORE_UNAVAILABLE.code());
        }
        assert!(store.calls(Verb::Begin) > 0);
        store.all_up();
        server.post("/orders", "3").await.is_first(200, "run 1");
        assert_eq!(server.post("/orders", "4").await.status, 429);
        assert_eq!(bench.records().await, 1);
    }
}

/// There is no record of what ran without the store.
#[tokio::test]
async fn keys_that_run_without_protection_do_not_count() {
    for bench in both_with(Config::new().with_on_store_error(OnStoreError::Run)).await {
        let (neighbour, store) = bench.neighbour().await;
        let layer = IdempotencyLayer::new(&neighbour, "shop").new_keys_per_scope(1, HOUR);
        let server = bench.serve(layer, number).await;
        store.all_down();
        for key in ["1", "2"] {
            let ran = tokio::spawn(send(server.keyed("/orders", key)));
            until(|| {
                bench.tick(Duration::from_millis(10));
                ran.is_finished()
            })
            .await;
            assert_eq!(ran.await.unwrap().status, 200);
        }
        store.all_up();
        server.post("/orders", "3").await.is_first(200, "run 3");
        assert_eq!(server.post("/orders", "4").await.status, 429);
    }
}

#[tokio::test]
async fn a_repeat_while_its_key_is_being_begun_is_no_new_key() {
    for bench in both().await {
        let (neighbour, store) = bench.neighbour().await;
        let layer = IdempotencyLayer::new(&neighbour, "shop").new_keys_per_scope(1, HOUR);
        let server = bench.serve(layer.wait(HOUR), number).await;
        let begun = store.hold(Verb::Begin);
        let first = tokio::spawn(send(server.keyed("/orders", "k")));
        begun.arrived(1).await;
        is_over(&server.post("/orders", "other").await);
        let looks = store.answers(Verb::Get);
        let repeat = tokio::spawn(send(server.keyed("/orders", "k")));
        until(|| store.answers(Verb::Get) > looks).await;
        begun.open();
        let (first, repeat) = (first.await.unwrap(), repeat.await.unwrap());
        first.is_first(200, "run 1");
        repeat.is_replay_of(&first);
        is_over(&server.post("/orders", "other").await);
    }
}

/// Two requests with one key look at its record before either has begun it.
#[tokio::test]
async fn a_repeat_that_looked_before_its_key_was_begun_is_no_new_key() {
    for bench in both().await {
        let gate = Gate::shut();
        let (neighbour, store) = bench.neighbour().await;
        let layer = IdempotencyLayer::new(&neighbour, "shop").new_keys_per_scope(1, HOUR);
        let server = bench.serve(layer, held(&gate)).await;
        let looked = store.hold_after(Verb::Get);
        let first = tokio::spawn(send(server.keyed("/orders", "k")));
        looked.arrived(1).await;
        let repeat = tokio::spawn(send(server.keyed("/orders", "k")));
        looked.arrived(2).await;
        looked.admit(1);
        until(|| bench.runs() == 1).await;
        looked.open();
        repeat.await.unwrap().is_problem(409, ProblemType::IN_PROGRESS.code());
        is_over(&server.post("/orders", "other").await);
        gate.admit(1);
        first.await.unwrap().is_first(200, "run 1");
    }
}

#[tokio::test]
async fn when_the_period_is_over_new_keys_are_taken_again() {
    let bench = Bench::memory(Config::new());
    let layer = bench.layer().new_keys_per_scope(1, HOUR);
    let server = bench.serve(layer, number).await;
    let first = server.post("/orders", "1").await;
    bench.tick(HOUR - Duration::from_secs(90));
    let early = server.post("/orders", "2").await;
    early.is_problem(429, problem::TOO_MANY_KEYS.code());
    assert_eq!(early.retry_after(), 90);
    bench.tick(Duration::from_secs(90));
    server.post("/orders", "2").await.is_first(200, "run 2");
    assert_eq!(server.post("/orders", "3").await.retry_after(), 3_600);
    // A key of an earlier period is not a new one.
    server.post("/orders", "1").await.is_replay_of(&first);
}

#[tokio::test]
async fn an_instance_that_is_turned_off_counts_nothing() {
    let bench = Bench::memory(Config::new());
    let off = Idempotency::builder().disabled().build().unwrap();
    let layer = IdempotencyLayer::new(&off, "shop").new_keys_per_scope(1, HOUR);
    let server = bench.serve(layer, number).await;
    for run in 1..=3 {
        let ran = server.post("/orders", &run.to_string()).await;
        assert_eq!((ran.status.as_u16(), ran.text()), (200, &*format!("run {run}")));
        assert_eq!(ran.header("idempotent-stored"), Some("false"));
    }
}

#[tokio::test]
async fn a_period_that_never_ends_counts_all_keys() {
    for bench in both().await {
        let layer = bench.layer().new_keys_per_scope(1, Duration::MAX);
        let server = bench.serve(layer, number).await;
        // The end of a period that begins later than this cannot be written down.
        bench.tick(HOUR);
        let first = server.post("/orders", "1").await;
        first.is_first(200, "run 1");
        for _ in 0..2 {
            let refused = server.post("/orders", "2").await;
            refused.is_problem(429, problem::TOO_MANY_KEYS.code());
        }
        server.post("/orders", "1").await.is_replay_of(&first);
    }
}

/// Its records are told apart by that scope, too.
#[tokio::test]
async fn a_scope_that_another_layer_put_in_place_is_counted_apart() {
    for bench in both().await {
        let layer = bench.layer().new_keys_per_scope(1, HOUR);
        let scoped = by_user(bench.layer().ambient_only());
        let server = serve(counted(&bench.ledger, number).layer(layer).layer(scoped)).await;
        let post = async |user: &str, key: &str| {
            send(server.keyed("/orders", key).header("user", user)).await
        };
        post("ada", "1").await.is_first(200, "run 1");
        is_over(&post("ada", "2").await);
        post("bob", "1").await.is_first(200, "run 2");
        is_over(&post("bob", "2").await);
    }
}

/// Refused for another reason after it was admitted, a key gives its place back.
#[tokio::test]
async fn a_key_that_is_refused_while_too_many_handlers_are_orphaned_does_not_count() {
    for bench in both().await {
        let (gate, departures) = (Gate::shut(), Departures::default());
        let layer = bench.layer().new_keys_per_scope(2, HOUR).max_orphaned_handlers(1);
        let router = counted(&bench.ledger, held(&gate)).layer(layer);
        let server = serve(departures.watch(router)).await;
        let client = tokio::spawn(send(server.keyed("/orders", "gone")));
        until(|| bench.runs() == 1).await;
        client.abort();
        until(|| departures.count() == 1).await;
        for key in ["1", "2", "3"] {
            let refused = server.post("/orders", key).await;
            refused.is_problem(503, problem::OVERLOADED.code());
        }
        gate.admit(2);
        until(|| bench.idem.in_flight() == 0).await;
        let mut answer = server.post("/orders", "3").await;
        // The count falls when the handler has ended, a moment after its call.
        while answer.status == 503 {
            answer = server.post("/orders", "3").await;
        }
        answer.is_first(200, "run 2");
        is_over(&server.post("/orders", "4").await);
    }
}

#[tokio::test]
async fn a_handler_that_is_orphaned_while_a_record_is_looked_at_keeps_the_next_one_away() {
    for bench in both().await {
        let (gate, departures) = (Gate::shut(), Departures::default());
        let (neighbour, store) = bench.neighbour().await;
        let layer = IdempotencyLayer::new(&neighbour, "shop").max_orphaned_handlers(1);
        let router = counted(&bench.ledger, held(&gate)).layer(layer.new_keys_per_scope(2, HOUR));
        let server = serve(departures.watch(router)).await;
        let client = tokio::spawn(send(server.keyed("/orders", "gone")));
        until(|| bench.runs() == 1).await;
        let looked = store.hold(Verb::Get);
        let refused = tokio::spawn(send(server.keyed("/orders", "k")));
        looked.arrived(1).await;
        client.abort();
        until(|| departures.count() == 1).await;
        looked.open();
        until(|| refused.is_finished()).await;
        refused.await.unwrap().is_problem(503, problem::OVERLOADED.code());
        gate.admit(1);
        until(|| neighbour.in_flight() == 0).await;
    }
}
