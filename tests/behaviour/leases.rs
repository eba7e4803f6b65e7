//! Leases: renewed while the body runs, lost when they cannot be, and fenced.

use idempotent_runtime::store::{MemoryStore, State, StoreErrorKind};
use idempotent_runtime::testing::{Fault, Verb};
use idempotent_runtime::{
    Abandon, AnswerPolicy, Current, Error, ErrorKind, Idempotency, Mode, current,
};
use std::time::Duration;
use support::{Bench, LEASE, both, local, remote, until, until_async};

/// A body that hands out its attempt and then waits to be let go.
pub(crate) struct Held {
    pub(crate) task: tokio::task::JoinHandle<Result<usize, Error>>,
    pub(crate) attempt: Current,
    pub(crate) go: tokio::sync::oneshot::Sender<()>,
}

pub(crate) async fn hold(bench: &Bench, abandon: Abandon) -> Held {
    let (tell, told) = tokio::sync::oneshot::channel();
    let (go, wait) = tokio::sync::oneshot::channel();
    let bench = bench.clone();
    let task = tokio::spawn(async move {
        let body = async {
            let run = bench.ledger.record("k");
            tell.send(current().unwrap()).unwrap();
            wait.await.unwrap();
            Ok(run)
        };
        bench.op().abandon(abandon).run(body).await
    });
    Held { task, attempt: told.await.unwrap(), go }
}

async fn lease_left(bench: &Bench) -> Duration {
    let record = bench.op().get().await.unwrap().unwrap();
    assert_eq!(record.head.state, State::Processing);
    record.head.lease_left(record.ttl)
}

#[tokio::test]
async fn a_body_longer_than_its_lease_keeps_its_key() {
    for bench in both() {
        let held = hold(&bench, Abandon::Retry).await;
        for _ in 0..10 {
            bench.clock.advance(LEASE / 3);
            until_async(|| async { lease_left(&bench).await == LEASE }).await;
        }
        let error = bench.op().mode(Mode::Reject).run(async { Ok::<u8, Error>(0) }).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InProgress);
        held.go.send(()).unwrap();
        assert_eq!(held.task.await.unwrap().unwrap(), 1);
        assert!(!held.attempt.is_lost());
    }
}

#[tokio::test]
async fn a_paused_process_is_superseded_and_its_value_dropped() {
    let bench = remote();
    let held = hold(&bench, Abandon::Retry).await;
    // A process that stands still renews nothing.
    bench.store.down(Verb::Renew);
    bench.clock.advance(LEASE + Duration::from_millis(1));
    let other = support::neighbour(&bench);
    let winner = other.op().run_detailed(async { Ok::<_, Error>(50_usize) }).await.unwrap();
    assert_eq!((winner.value, winner.attempt), (50, 2));
    held.go.send(()).unwrap();
    let error = held.task.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Superseded);
    assert!(error.body_ran());
    assert_eq!(bench.run().await.unwrap(), 50);
    assert_eq!(bench.runs(), 1);
    bench.at_rest().await;
}

#[tokio::test]
async fn the_body_is_told_when_its_lease_is_lost() {
    for bench in both() {
        let held = hold(&bench, Abandon::Retry).await;
        assert!(!held.attempt.is_lost());
        bench.op().forget(true).await.unwrap();
        bench.clock.advance(LEASE / 3);
        held.attempt.lost().await;
        held.go.send(()).unwrap();
        assert_eq!(held.task.await.unwrap().unwrap_err().kind(), ErrorKind::Superseded);
    }
}

#[tokio::test]
async fn the_body_is_told_when_its_lease_runs_out_unrenewed() {
    let bench = remote();
    let held = hold(&bench, Abandon::Retry).await;
    bench.store.down(Verb::Renew);
    bench.clock.advance(LEASE);
    held.attempt.lost().await;
    held.go.send(()).unwrap();
    // Nobody took over: the answer counts.
    assert_eq!(held.task.await.unwrap().unwrap(), 1);
    assert_eq!(bench.run().await.unwrap(), 1);
}

#[tokio::test]
async fn a_renewal_that_fails_is_repeated_before_the_lease_is_over() {
    let bench = remote();
    let held = hold(&bench, Abandon::Retry).await;
    bench.store.fault_next(Verb::Renew, Fault::Before(StoreErrorKind::Unavailable));
    bench.clock.advance(LEASE / 3);
    bench.store.answered(Verb::Renew, 1).await;
    bench.clock.advance(LEASE / 6);
    bench.store.answered(Verb::Renew, 2).await;
    until_async(|| async { lease_left(&bench).await == LEASE }).await;
    assert!(!held.attempt.is_lost());
    held.go.send(()).unwrap();
    held.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_hung_body_holds_its_key_no_longer_than_max_run() {
    let bench = local();
    let task = tokio::spawn({
        let bench = bench.clone();
        async move {
            let body = async {
                bench.ledger.record("k");
                std::future::pending::<Result<usize, Error>>().await
            };
            bench.op().max_run(LEASE * 2).run(body).await
        }
    });
    until(|| bench.runs() == 1).await;
    for _ in 0..5 {
        bench.clock.advance(LEASE / 3);
        until_async(|| async { lease_left(&bench).await == LEASE }).await;
    }
    // Renewing has stopped; the rest of the lease runs out.
    bench.clock.advance(LEASE);
    assert_eq!(bench.run().await.unwrap(), 2);
    task.abort();
}

#[tokio::test]
async fn fences_and_attempt_numbers_grow() {
    for bench in both() {
        let mut seen = Vec::new();
        for _ in 0..5 {
            let failed = bench.op().run(async {
                let attempt = current().unwrap();
                seen.push((attempt.attempt(), attempt.fence()));
                Err::<u8, _>(support::OwnError::new("again"))
            });
            let failed = failed.await;
            assert_eq!(failed.unwrap_err().0, "again");
        }
        assert!(seen.is_sorted_by(|a, b| a.0 + 1 == b.0 && a.1 < b.1), "{seen:?}");
    }
}

#[tokio::test]
async fn the_current_attempt_is_known_inside_the_body_only() {
    let bench = local();
    assert!(current().is_none());
    let body = async {
        let attempt = current().unwrap();
        assert_eq!(attempt.key(), bench.op().record_key().unwrap().as_str());
        let elsewhere = tokio::spawn(async { current().is_some() }).await.unwrap();
        assert!(!elsewhere, "it must not cross a spawn by itself");
        let carried = tokio::spawn(attempt.clone().enter(async { current().is_some() }));
        assert!(carried.await.unwrap());
        Ok::<_, Error>(1)
    };
    bench.op().run(body).await.unwrap();
    assert!(current().is_none());
}

#[tokio::test]
async fn a_paused_process_may_still_complete_a_blocked_key() {
    let bench = remote();
    let held = hold(&bench, Abandon::Block).await;
    bench.store.down(Verb::Renew);
    bench.clock.advance(LEASE * 2);
    let error = support::neighbour(&bench).run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    held.go.send(()).unwrap();
    assert_eq!(held.task.await.unwrap().unwrap(), 1);
    assert_eq!(bench.run().await.unwrap(), 1);
    assert_eq!(bench.runs(), 1);
}

#[tokio::test]
async fn a_grant_that_took_longer_than_the_lease_is_not_used() {
    let bench = remote();
    let gate = bench.store.hold_after(Verb::Begin);
    let call = bench.spawn();
    gate.arrived(1).await;
    bench.clock.advance(LEASE);
    gate.open();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
    assert!(!error.body_ran());
    assert_eq!(bench.runs(), 0);
    bench.store.answered(Verb::Release, 1).await;
    assert_eq!(bench.run().await.unwrap(), 1);
}

#[tokio::test]
async fn a_grant_that_took_half_the_lease_is_renewed_before_the_body_starts() {
    let bench = remote();
    let gate = bench.store.hold_after(Verb::Begin);
    let call = tokio::spawn({
        let bench = bench.clone();
        async move {
            let body = async { Ok::<_, Error>(bench.store.answers(Verb::Renew)) };
            bench.op().run(body).await
        }
    });
    gate.arrived(1).await;
    bench.clock.advance(LEASE * 2 / 3);
    gate.open();
    assert!(call.await.unwrap().unwrap() >= 1, "the body started before the lease was renewed");
}

#[tokio::test]
async fn a_grant_whose_renewal_took_longer_than_the_lease_is_not_used() {
    let bench = remote();
    let begin = bench.store.hold_after(Verb::Begin);
    let renew = bench.store.hold_after(Verb::Renew);
    let call = bench.spawn();
    begin.arrived(1).await;
    bench.clock.advance(LEASE * 2 / 3);
    begin.open();
    renew.arrived(2).await;
    bench.clock.advance(LEASE);
    renew.open();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
    assert!(!error.body_ran());
    assert_eq!(bench.runs(), 0);
    bench.store.answered(Verb::Release, 1).await;
    assert_eq!(bench.run().await.unwrap(), 1);
}

/// The lease that the renewal asked for would have time left. The one it was to renew has ended, and
/// others may have run meanwhile.
#[tokio::test]
async fn a_grant_that_was_renewed_after_its_end_is_not_used() {
    let bench = remote();
    let begin = bench.store.hold_after(Verb::Begin);
    let renew = bench.store.hold_after(Verb::Renew);
    let call = bench.spawn();
    begin.arrived(1).await;
    bench.clock.advance(LEASE * 2 / 3);
    begin.open();
    renew.arrived(2).await;
    bench.clock.advance(LEASE / 2);
    renew.open();
    assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::StoreUnavailable);
    assert_eq!(bench.runs(), 0);
    bench.store.answered(Verb::Release, 1).await;
    assert_eq!(bench.run().await.unwrap(), 1);
}

#[tokio::test]
async fn a_detached_body_starts_with_its_grant_and_waits_for_no_turn_of_a_task() {
    let bench = remote();
    let body = {
        let bench = bench.clone();
        async move { Ok::<_, Error>(bench.ledger.record("k")) }
    };
    let runs_at_the_grant = async {
        while bench.store.answers(Verb::Begin) == 0 {
            tokio::task::yield_now().await;
        }
        bench.runs()
    };
    let call = bench.op().run_detached(AnswerPolicy::kept(), body);
    let (answer, runs) = tokio::join!(biased; call, runs_at_the_grant);
    assert_eq!((answer.unwrap().value, runs), (1, 1));
}

/// On the system's clock: these are about threads and runtimes.
fn quick() -> Idempotency {
    let config = support::strong().with_lease(Duration::from_millis(300));
    Idempotency::builder().store(MemoryStore::new()).config(config).build().unwrap()
}

#[test]
fn a_body_that_blocks_its_thread_keeps_its_key() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let idem = quick();
    let elsewhere = idem.clone();
    let answer: Result<bool, Error> = runtime.block_on(idem.operation("o").key(1).run(async {
        // Another thread asks again and again, over several leases, while this one is blocked.
        let asker = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let until = std::time::Instant::now() + Duration::from_millis(1_200);
            while std::time::Instant::now() < until {
                let op = elsewhere.operation("o").key(1).mode(Mode::Reject);
                let stolen = runtime.block_on(op.run(async { Ok::<bool, Error>(true) }));
                assert_eq!(stolen.unwrap_err().kind(), ErrorKind::InProgress);
                std::thread::yield_now();
            }
        });
        asker.join().unwrap();
        Ok(false)
    }));
    assert!(!answer.unwrap());
}

#[test]
fn an_instance_outlives_the_runtime_that_first_used_it() {
    let idem = quick();
    for round in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let slow = async {
            tokio::time::sleep(Duration::from_millis(700)).await;
            Ok::<_, Error>(round)
        };
        assert_eq!(runtime.block_on(idem.operation("o").key(round).run(slow)).unwrap(), round);
    }
}
