//! `max_concurrent`: the limit on bodies in this process.

use idempotent_runtime::testing::{Fault, Ledger, Verb};
use idempotent_runtime::{AnswerPolicy, Begin, Error, ErrorKind, Mode};
use std::sync::Arc;
use std::time::Duration;
use support::{Bench, LEASE, local, remote, until};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Bodies that run until they are let go.
#[derive(Clone)]
struct Bodies {
    started: Ledger,
    go: Arc<Semaphore>,
}

impl Bodies {
    fn new() -> Self {
        Self { started: Ledger::new(), go: Arc::new(Semaphore::new(0)) }
    }

    fn call(&self, bench: &Bench, key: usize) -> JoinHandle<Result<usize, Error>> {
        let (bodies, bench) = (self.clone(), bench.clone());
        tokio::spawn(async move {
            let body = async {
                bodies.started.record(key.to_string());
                bodies.go.acquire().await.unwrap().forget();
                Ok(key)
            };
            bench.idem.operation("limited").key(key).run(body).await
        })
    }
}

fn limited(bench: Bench, limit: usize) -> Bench {
    bench.idem.reconfigure(support::strong().with_max_concurrent(limit)).unwrap();
    bench
}

fn both(limit: usize) -> [Bench; 2] {
    [limited(local(), limit), limited(remote(), limit)]
}

async fn refused(call: JoinHandle<Result<usize, Error>>) -> Error {
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreFull, "{error}");
    assert!(!error.body_ran());
    error
}

#[tokio::test]
async fn refused_calls_take_no_place_while_the_store_answers_no_release() {
    for bench in both(10) {
        bench.store.fault_always(Verb::Release, Fault::Hang);
        let bodies = Bodies::new();
        for round in 0..3 {
            let first = round * 1_000;
            let running: Vec<_> = (first..first + 10).map(|key| bodies.call(&bench, key)).collect();
            until(|| bodies.started.total() == 10 * (round + 1)).await;
            for call in (first + 10..first + 210).map(|key| bodies.call(&bench, key)) {
                refused(call).await;
            }
            bodies.go.add_permits(10);
            for call in running {
                call.await.unwrap().unwrap();
            }
        }
        assert_eq!(bodies.started.total(), 30);
    }
}

#[tokio::test]
async fn callers_that_come_at_once_fill_every_place_and_no_more() {
    for bench in both(10) {
        bench.store.fault_always(Verb::Release, Fault::Hang);
        let bodies = Bodies::new();
        let calls: Vec<_> = (0..210).map(|key| bodies.call(&bench, key)).collect();
        until(|| calls.iter().filter(|call| call.is_finished()).count() == 200).await;
        assert_eq!(bodies.started.total(), 10);
        bodies.go.add_permits(10);
        let mut ran = 0;
        for call in calls {
            match call.await.unwrap() {
                Ok(_) => ran += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::StoreFull),
            }
        }
        assert_eq!(ran, 10);
    }
}

#[tokio::test]
async fn a_refused_call_begins_nothing() {
    let bench = limited(remote(), 1);
    let bodies = Bodies::new();
    let running = bodies.call(&bench, 1);
    until(|| bodies.started.total() == 1).await;
    refused(bodies.call(&bench, 2)).await;
    assert_eq!((bench.store.calls(Verb::Begin), bench.store.calls(Verb::Release)), (1, 0));
    bodies.go.add_permits(1);
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_is_recorded_is_answered_while_every_place_is_taken() {
    for bench in both(1) {
        let op = |key: &'static str| bench.idem.operation("limited").key(key);
        let ok = || async { Ok::<u8, Error>(7) };
        op("done").run(ok()).await.unwrap();
        op("rejected").mode(Mode::Reject).run(ok()).await.unwrap();
        op("taken").mode(Mode::Window).run(ok()).await.unwrap();
        let fingerprint = idempotent_runtime::Fingerprint::of("one");
        op("bound").fingerprint(fingerprint).run(ok()).await.unwrap();
        let blocked = op("blocked").abandon(idempotent_runtime::Abandon::Block);
        let Begin::Fresh(attempt) = blocked.begin().await.unwrap() else { panic!("not fresh") };
        drop(attempt);
        support::until_async(|| async {
            let state = blocked.get().await.unwrap().map(|record| record.head.state);
            state == Some(idempotent_runtime::store::State::Abandoned)
        })
        .await;

        let bodies = Bodies::new();
        let running = bodies.call(&bench, 1);
        until(|| bodies.started.total() == 1).await;
        assert_eq!(op("done").run(ok()).await.unwrap(), 7);
        let kind = |answer: Result<u8, Error>| answer.unwrap_err().kind();
        let rejected = op("rejected").mode(Mode::Reject).run(ok()).await;
        assert_eq!(kind(rejected), ErrorKind::Duplicate);
        assert_eq!(kind(op("taken").mode(Mode::Window).run(ok()).await), ErrorKind::Duplicate);
        let other = idempotent_runtime::Fingerprint::of("two");
        assert_eq!(kind(op("bound").fingerprint(other).run(ok()).await), ErrorKind::Mismatch);
        assert_eq!(kind(op("blocked").run(ok()).await), ErrorKind::Indeterminate);
        let in_flight = bench.idem.operation("limited").key(1_usize).mode(Mode::Reject);
        assert_eq!(kind(in_flight.run(ok()).await), ErrorKind::InProgress);
        assert_eq!(kind(op("fresh").run(ok()).await), ErrorKind::StoreFull);
        bodies.go.add_permits(1);
        running.await.unwrap().unwrap();
    }
}

/// The place is the body's: it is free when the body has ended, not when that is recorded.
#[tokio::test]
async fn a_body_that_has_ended_leaves_its_place_before_its_answer_is_recorded() {
    let bench = limited(remote(), 1);
    let complete = bench.store.hold(Verb::Complete);
    let first = bench.spawn();
    complete.arrived(1).await;
    let other = bench.idem.operation("limited").key(2);
    let second = other.begin().await.unwrap();
    assert!(matches!(second, Begin::Fresh(_)), "{second:?}");
    complete.open();
    assert_eq!(first.await.unwrap().unwrap(), 1);
    drop(second);
}

#[tokio::test]
async fn a_dropped_attempt_leaves_its_place_before_the_store_answers() {
    for bench in both(1) {
        for verb in [Verb::Abandon, Verb::Release, Verb::Fail] {
            bench.store.fault_always(verb, Fault::Hang);
        }
        for key in 0..5 {
            let begun = bench.idem.operation("limited").key(key).begin().await.unwrap();
            assert!(matches!(begun, Begin::Fresh(_)), "{begun:?}");
        }
    }
}

/// While the store has not answered, nobody knows who will run. Callers that would be refused wait
/// for that answer: replays in great number must not refuse a first call.
#[tokio::test]
async fn calls_that_only_ask_keep_nobody_from_running() {
    let bench = limited(remote(), 1);
    let op = |key: u8| bench.idem.operation("limited").key(key);
    op(1).run(async { Ok::<u8, Error>(7) }).await.unwrap();
    let begin = bench.store.hold(Verb::Begin);
    let idem = bench.idem.clone();
    let replay = tokio::spawn(async move {
        idem.operation("limited").key(1_u8).run(async { Ok::<u8, Error>(0) }).await
    });
    begin.arrived(1).await;
    let gets = bench.store.calls(Verb::Get);
    let idem = bench.idem.clone();
    let first = tokio::spawn(async move {
        idem.operation("limited").key(2_u8).run(async { Ok::<u8, Error>(8) }).await
    });
    bench.store.answered(Verb::Get, gets + 1).await;
    begin.open();
    assert_eq!(replay.await.unwrap().unwrap(), 7);
    assert_eq!(first.await.unwrap().unwrap(), 8);
}

#[tokio::test]
async fn a_call_inside_a_body_shares_its_place() {
    for bench in both(1) {
        let inner = |key: &'static str| {
            bench.idem.operation("inner").key(key).run(async { Ok::<u8, Error>(1) })
        };
        let outer = async {
            let sum = inner("a").await? + inner("b").await?;
            let current = idempotent_runtime::current().unwrap();
            let idem = bench.idem.clone();
            let elsewhere = tokio::spawn(current.enter(async move {
                idem.operation("inner").key("c").run(async { Ok::<u8, Error>(1) }).await
            }));
            let detached = bench.idem.operation("inner").key("d");
            let detached =
                detached.run_detached(AnswerPolicy::kept(), async { Ok::<u8, Error>(1) });
            Ok(sum + elsewhere.await.unwrap()? + detached.await?.value)
        };
        let answer: Result<u8, Error> = bench.idem.operation("outer").key(1).run(outer).await;
        assert_eq!(answer.unwrap(), 4);
        inner("afterwards").await.unwrap();
    }
}

/// A body inside another one may outlive it. Its place is taken until both have ended.
#[tokio::test]
async fn a_shared_place_is_free_when_the_last_of_its_bodies_has_ended() {
    for bench in both(1) {
        let go = Arc::new(Semaphore::new(0));
        let (idem, inner_go) = (bench.idem.clone(), Arc::clone(&go));
        let mut inner = None;
        let outer = async {
            let current = idempotent_runtime::current().unwrap();
            let (started, has_started) = tokio::sync::oneshot::channel();
            inner = Some(tokio::spawn(current.enter(async move {
                let body = async {
                    started.send(()).unwrap();
                    inner_go.acquire().await.unwrap().forget();
                    Ok::<u8, Error>(1)
                };
                idem.operation("inner").key(1).run(body).await
            })));
            has_started.await.unwrap();
            Ok::<u8, Error>(1)
        };
        bench.idem.operation("outer").key(1).run(outer).await.unwrap();
        let other = || bench.idem.operation("other").key(1).run(async { Ok::<u8, Error>(1) });
        assert_eq!(other().await.unwrap_err().kind(), ErrorKind::StoreFull);
        go.add_permits(1);
        inner.unwrap().await.unwrap().unwrap();
        other().await.unwrap();
    }
}

#[tokio::test]
async fn a_batch_has_one_body_and_takes_one_place() {
    for bench in both(1) {
        let batch = |rows: std::ops::Range<u8>| {
            let rows = rows.map(|row| (row, row));
            let idem = bench.idem.clone();
            bench.idem.operation("rows").run_batch(rows, move |rows: Vec<u8>| async move {
                let nested = idem.operation("nested").key(rows.len());
                nested.run(async { Ok::<u8, Error>(0) }).await.unwrap();
                rows.into_iter().map(Ok::<_, Error>).collect()
            })
        };
        for answer in batch(0..5).await {
            answer.unwrap();
        }
        let bodies = Bodies::new();
        let running = bodies.call(&bench, 1);
        until(|| bodies.started.total() == 1).await;
        let answers = batch(4..6).await;
        assert_eq!(answers[0].as_ref().unwrap().value, 4, "a replay");
        assert_eq!(answers[1].as_ref().unwrap_err().kind(), ErrorKind::StoreFull);
        bodies.go.add_permits(1);
        running.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_caller_that_waits_for_a_body_takes_no_place() {
    let bench = limited(remote(), 2);
    let other = limited(support::neighbour(&bench), 1);
    let held = bench.hang();
    until(|| bench.runs() == 1).await;
    let idem = other.idem.clone();
    let waiting = tokio::spawn(async move {
        let op = idem.operation("test.op").key("k").wait(LEASE * 10);
        op.run(async { Ok::<usize, Error>(2) }).await
    });
    bench.store.answered(Verb::Watch, 1).await;
    let run = other.idem.operation("limited").key(1).run(async { Ok::<u8, Error>(1) });
    assert_eq!(run.await.unwrap(), 1);
    held.abort();
    until(|| {
        bench.clock.advance(Duration::from_millis(100));
        waiting.is_finished()
    })
    .await;
    assert_eq!(waiting.await.unwrap().unwrap(), 2);
}

#[tokio::test]
async fn an_attempt_that_is_not_counted_leaves_room_for_the_calls_beside_it() {
    for bench in both(1) {
        let around = bench.idem.operation("around").key(1).uncounted();
        let Begin::Fresh(attempt) = around.begin().await.unwrap() else { panic!("it is free") };
        let inner = || bench.idem.operation("inner").key(1);
        let Begin::Fresh(counted) = inner().begin().await.unwrap() else { panic!("it is free") };
        let error = bench.idem.operation("inner").key(2).begin().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreFull, "{error}");
        let beside = bench.idem.operation("around").key(2).uncounted().begin().await.unwrap();
        assert!(matches!(beside, Begin::Fresh(_)), "the limit does not hold for it");
        counted.complete(&1).await.unwrap();
        attempt.complete(&1).await.unwrap();
    }
}
