//! Concurrent requests with one key: in flight, waiting, many at once, and clients that go away.

use crate::bench::{Bench, both};
use crate::client::{Reply, send};
use crate::server::{Departures, Gate, Run, Server, counted, held, number, serve};
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::instance::Drained;
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::store::State;
use idempotent_runtime::testing::{FaultStore, Verb};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;
use support::until;
use tokio::task::JoinHandle;

const LONG: Duration = Duration::from_secs(60);

/// Sends a request and waits until its handler runs.
async fn begin(bench: &Bench, server: &Server, key: &str) -> JoinHandle<Reply> {
    let runs = bench.runs();
    let first = tokio::spawn(send(server.keyed("/orders", key)));
    until(|| bench.runs() == runs + 1).await;
    first
}

/// Two servers on the same records, each a process of its own, and the store that the second one has.
async fn two_servers(
    bench: &Bench,
    vary: fn(IdempotencyLayer) -> IdempotencyLayer,
    gate: &Gate,
) -> ([Server; 2], FaultStore) {
    let (neighbour, store) = bench.neighbour().await;
    let one = bench.serve(vary(bench.layer()), held(gate)).await;
    let two = bench.serve(vary(IdempotencyLayer::new(&neighbour, "shop")), held(gate)).await;
    ([one, two], store)
}

#[tokio::test]
async fn when_to_come_back_can_be_chosen_and_is_no_later_than_the_end_of_the_lease() {
    let long = |layer: IdempotencyLayer| layer.retry_after(Duration::from_secs(7));
    let short_lease =
        |layer: IdempotencyLayer| layer.retry_after(Duration::from_secs(7)).lease(SHORT);
    const SHORT: Duration = Duration::from_secs(3);
    let cases: [(fn(_) -> _, _); 2] = [(long, 7..=7), (short_lease, 1..=3)];
    for (vary, expected) in cases {
        for bench in both().await {
            let gate = Gate::shut();
            let ([server, other], _) = two_servers(&bench, vary, &gate).await;
            let first = begin(&bench, &server, "k").await;
            let repeat = other.post("/orders", "k").await;
            assert!(expected.contains(&repeat.retry_after()), "{repeat:?}");
            gate.admit(1);
            first.await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_repeat_in_flight_is_told_when_to_come_back() {
    for bench in both().await {
        let gate = Gate::shut();
        let ([server, other], _) = two_servers(&bench, |layer| layer, &gate).await;
        let first = begin(&bench, &server, "k").await;
        for server in [&server, &other] {
            let repeat = server.post("/orders", "k").await;
            repeat.is_problem(409, ProblemType::IN_PROGRESS.code());
            assert_eq!(repeat.retry_after(), 1, "{repeat:?}");
        }
        gate.admit(1);
        let first = first.await.unwrap();
        first.is_first(200, "run 1");
        for server in [&server, &other] {
            server.post("/orders", "k").await.is_replay_of(&first);
        }
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn a_repeat_waits_for_the_first_where_that_is_switched_on() {
    for bench in both().await {
        let gate = Gate::shut();
        let (servers, store) = two_servers(&bench, |layer| layer.wait(LONG), &gate).await;
        let first = begin(&bench, &servers[0], "k").await;
        let repeats =
            servers.each_ref().map(|server| tokio::spawn(send(server.keyed("/orders", "k"))));
        // Whoever watches a record waits for it.
        store.called(Verb::Watch, 1).await;
        gate.admit(1);
        let first = first.await.unwrap();
        first.is_first(200, "run 1");
        for repeat in repeats {
            repeat.await.unwrap().is_replay_of(&first);
        }
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn repeats_that_waited_for_two_failed_requests_are_told_to_come_back() {
    for bench in both().await {
        let gate = Gate::shut();
        let fails = {
            let held = held(&gate);
            move |run: Run| {
                let held = held(run);
                async move {
                    drop(held.await);
                    Err::<&'static str, _>(http::StatusCode::SERVICE_UNAVAILABLE)
                }
            }
        };
        // The layer asks on whose behalf each request is made, and then for its key.
        let arrived = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&arrived);
        let layer = bench.layer().wait(LONG).scope(move |_| {
            counts.fetch_add(1, SeqCst);
            Some("everybody".to_owned())
        });
        let server = bench.serve(layer, fails).await;
        let first = begin(&bench, &server, "k").await;
        let repeats: Vec<_> =
            (0..10).map(|_| tokio::spawn(send(server.keyed("/orders", "k")))).collect();
        until(|| arrived.load(SeqCst) == 11).await;
        gate.admit(1);
        first.await.unwrap().is_first(503, "");
        until(|| bench.runs() == 2).await;
        gate.admit(20);
        let (mut ran, mut refused) = (0, 0);
        for repeat in repeats {
            let repeat = repeat.await.unwrap();
            match repeat.status.as_u16() {
                503 => ran += 1,
                _ => {
                    repeat.is_problem(409, ProblemType::IN_PROGRESS.code());
                    assert_eq!(repeat.retry_after(), 1, "{repeat:?}");
                    assert!(repeat.text().contains("failed"), "{repeat:?}");
                    refused += 1;
                }
            }
        }
        assert_eq!((ran + refused, bench.runs()), (10, ran + 1));
        assert!(refused > 0, "{ran} ran one after the other");
    }
}

#[tokio::test]
async fn when_the_first_fails_one_of_those_who_wait_runs() {
    for bench in both().await {
        let gate = Gate::shut();
        let fails_first = {
            let held = held(&gate);
            move |run: Run| {
                let (first, held) = (run.number == 1, held(run));
                async move {
                    let text = held.await;
                    if first { Err(http::StatusCode::SERVICE_UNAVAILABLE) } else { Ok(text) }
                }
            }
        };
        let server = bench.serve(bench.layer().wait(LONG), fails_first).await;
        let first = begin(&bench, &server, "k").await;
        let repeats: Vec<_> =
            (0..5).map(|_| tokio::spawn(send(server.keyed("/orders", "k")))).collect();
        gate.admit(2);
        first.await.unwrap().is_first(503, "");
        let mut replays = 0;
        for repeat in repeats {
            let repeat = repeat.await.unwrap();
            assert_eq!((repeat.status.as_u16(), repeat.text()), (200, "run 2"));
            replays += usize::from(repeat.is_replay());
        }
        assert_eq!((replays, bench.runs()), (4, 2));
    }
}

async fn fifty_at_once(servers: &[Server; 2]) -> Vec<Reply> {
    let sent: Vec<_> =
        (0..50).map(|index| tokio::spawn(send(servers[index % 2].keyed("/orders", "k")))).collect();
    let mut replies = Vec::new();
    for reply in sent {
        replies.push(reply.await.unwrap());
    }
    replies
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_fifty_at_once_one_runs_and_the_others_are_replays_or_told_to_come_back() {
    for bench in both().await {
        let gate = Gate::shut();
        gate.admit(50);
        let (servers, _) = two_servers(&bench, |layer| layer, &gate).await;
        let replies = fifty_at_once(&servers).await;
        let mut first = 0;
        for reply in &replies {
            match (reply.status.as_u16(), reply.is_replay()) {
                (200, false) => {
                    reply.is_first(200, "run 1");
                    first += 1;
                }
                (200, true) => assert_eq!(reply.text(), "run 1"),
                _ => reply.is_problem(409, ProblemType::IN_PROGRESS.code()),
            }
        }
        assert_eq!((first, bench.runs()), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_at_once_that_wait_all_get_the_one_answer() {
    for bench in both().await {
        let gate = Gate::shut();
        gate.admit(50);
        let (servers, _) = two_servers(&bench, |layer| layer.wait(LONG), &gate).await;
        let replies = fifty_at_once(&servers).await;
        assert!(replies.iter().all(|reply| reply.status == 200 && reply.text() == "run 1"));
        assert_eq!(replies.iter().filter(|reply| reply.is_replay()).count(), 49);
        assert_eq!(bench.runs(), 1);
    }
}

/// A handler that is held, behind `layer`, watched from outside.
async fn serve_watched(
    bench: &Bench,
    departures: &Departures,
    layer: IdempotencyLayer,
    gate: &Gate,
) -> Server {
    serve(departures.watch(counted(&bench.ledger, held(gate)).layer(layer))).await
}

const POST: &[u8] =
    b"POST /orders HTTP/1.1\r\nhost: x\r\nidempotency-key: k\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn a_handler_finishes_after_its_client_has_gone_and_a_repeat_is_a_replay() {
    for bench in both().await {
        let (gate, departures) = (Gate::shut(), Departures::default());
        let server = serve_watched(&bench, &departures, bench.layer(), &gate).await;
        let mut client = server.connect().await;
        client.write(POST).await;
        until(|| bench.runs() == 1).await;
        drop(client);
        until(|| departures.count() == 1).await;
        let repeat = server.post("/orders", "k").await;
        repeat.is_problem(409, ProblemType::IN_PROGRESS.code());
        gate.admit(1);
        until(|| bench.idem.in_flight() == 0).await;
        let replay = server.post("/orders", "k").await;
        assert!(replay.is_replay() && replay.text() == "run 1", "{replay:?}");
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn one_who_waits_and_gives_up_leaves_the_record_alone() {
    for bench in both().await {
        let (gate, departures) = (Gate::shut(), Departures::default());
        let server = serve_watched(&bench, &departures, bench.layer(), &gate).await;
        let first = begin(&bench, &server, "k").await;
        let before = bench.record("/orders", "k").await.unwrap().head;
        assert_eq!(before.state, State::Processing);

        let patience = Duration::from_millis(50);
        let waiting = bench.serve(bench.layer().wait(patience), held(&gate)).await;
        let gives_up = tokio::spawn(send(waiting.keyed("/orders", "k")));
        until(|| {
            bench.tick(patience);
            gives_up.is_finished()
        })
        .await;
        let gave_up = gives_up.await.unwrap();
        gave_up.is_problem(409, ProblemType::IN_PROGRESS.code());
        assert!(gave_up.retry_after() >= 1);

        let (neighbour, store) = bench.neighbour().await;
        let layer = IdempotencyLayer::new(&neighbour, "shop").wait(LONG);
        let leaves = serve_watched(&bench, &departures, layer, &gate).await;
        let mut client = leaves.connect().await;
        client.write(POST).await;
        // Whoever watches a record waits for it.
        store.called(Verb::Watch, 1).await;
        drop(client);
        until(|| departures.count() == 1).await;

        let after = bench.record("/orders", "k").await.unwrap().head;
        assert_eq!(after.attempt.token, before.attempt.token);
        assert_eq!(after.state, State::Processing);
        gate.admit(1);
        let first = first.await.unwrap();
        first.is_first(200, "run 1");
        server.post("/orders", "k").await.is_replay_of(&first);
        assert_eq!(bench.runs(), 1);
    }
}

pub(crate) async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn shutdown_waits_for_a_handler_whose_client_has_gone() {
    for bench in both().await {
        let (gate, departures) = (Gate::shut(), Departures::default());
        let server = serve_watched(&bench, &departures, bench.layer(), &gate).await;
        let mut client = server.connect().await;
        client.write(POST).await;
        until(|| bench.runs() == 1).await;
        drop(client);
        until(|| departures.count() == 1).await;
        let mut stop = pin!(bench.idem.shutdown(LONG));
        assert!(is_pending(stop.as_mut()).await);
        let refused = server.post("/orders", "other").await;
        refused.is_problem(503, ProblemType::SHUTTING_DOWN.code());
        assert!(refused.retry_after() >= 1);
        assert!(is_pending(stop.as_mut()).await);
        gate.admit(1);
        assert_eq!(stop.await, Drained::All);
        // Another process finds what the handler left.
        let (neighbour, _) = bench.neighbour().await;
        let after = bench.serve(IdempotencyLayer::new(&neighbour, "shop"), number).await;
        let replay = after.post("/orders", "k").await;
        assert!(replay.is_replay() && replay.text() == "run 1", "{replay:?}");
    }
}
