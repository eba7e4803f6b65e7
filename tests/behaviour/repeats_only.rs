//! Calls that only replay answers, and never run a body.

use idempotent_runtime::testing::Verb;
use idempotent_runtime::{Error, ErrorKind, Idempotency, OnStoreError, Outcome};
use std::sync::Arc;
use std::time::Duration;
use support::{OwnError, both, neighbour, remote, remote_with, strong, until};
use tokio::sync::Semaphore;

async fn must_not_run() -> Result<usize, Error> {
    unreachable!("it ran")
}

#[tokio::test]
async fn a_call_for_repeats_only_gets_answers_and_starts_nothing() {
    for bench in both() {
        let new = bench.op().repeats_only().run(must_not_run()).await.unwrap_err();
        assert_eq!(new.kind(), ErrorKind::StoreFull, "{new}");
        assert!(!new.body_ran() && new.message().contains("repeats only"), "{new}");
        assert!(bench.op().get().await.unwrap().is_none(), "it left a record");
        assert_eq!(bench.run().await.unwrap(), 1);
        assert_eq!(bench.op().repeats_only().run(must_not_run()).await.unwrap(), 1);
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn a_call_for_repeats_only_waits_for_the_body_that_runs() {
    for bench in both() {
        let go = Arc::new(Semaphore::new(0));
        let (held, waits) = (bench.clone(), Arc::clone(&go));
        let first = tokio::spawn(async move {
            let body = async {
                let run = held.ledger.record("k");
                waits.acquire().await.unwrap().forget();
                Ok::<_, Error>(run)
            };
            held.op().run(body).await
        });
        until(|| bench.runs() == 1).await;
        let op = bench.op().repeats_only();
        let mut repeat = std::pin::pin!(op.run(must_not_run()));
        tokio::select! {
            answer = &mut repeat => panic!("{answer:?}"),
            () = async { for _ in 0..50 { tokio::task::yield_now().await } } => {}
        }
        go.add_permits(1);
        assert_eq!(repeat.await.unwrap(), 1);
        assert_eq!(first.await.unwrap().unwrap(), 1);
    }
}

#[tokio::test]
async fn a_call_for_repeats_only_runs_nothing_without_protection() {
    let bench = remote();
    bench.store.all_down();
    let caller = bench.clone();
    let call = tokio::spawn(async move {
        let op = caller.op().repeats_only().on_store_error(OnStoreError::Run);
        op.run(must_not_run()).await
    });
    until(|| {
        bench.clock.advance(Duration::from_millis(1));
        call.is_finished()
    })
    .await;
    assert!(!call.await.unwrap().unwrap_err().body_ran());
    let off = Idempotency::builder().disabled().build().unwrap();
    let refused = off.operation("o").key(1).repeats_only().run(must_not_run()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StoreFull);
    let rows = off.operation("o").repeats_only();
    let rows = rows.run_batch([(1, ()), (2, ())], |_| async { unreachable!("it ran") });
    for answer in rows.await {
        let refused: Error = answer.map(|outcome: Outcome<u8>| outcome.value).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::StoreFull);
    }
}

#[tokio::test]
async fn a_call_for_repeats_only_inside_a_body_has_no_share_in_its_permit() {
    let bench = remote_with(strong().with_max_concurrent(1));
    let inner = bench.idem.clone();
    let body =
        async move { inner.operation("inner").key(1).repeats_only().run(must_not_run()).await };
    assert_eq!(bench.op().run(body).await.unwrap_err().kind(), ErrorKind::StoreFull);
}

/// It asks the store for all callers of its process, and must not take their run from them.
#[tokio::test]
async fn a_call_for_repeats_only_that_came_first_leaves_the_run_to_those_behind_it() {
    let bench = remote();
    let elsewhere = neighbour(&bench);
    let go = Arc::new(Semaphore::new(0));
    let failing = tokio::spawn({
        let (elsewhere, go) = (elsewhere.clone(), Arc::clone(&go));
        async move {
            let body = async {
                elsewhere.ledger.record("k");
                go.acquire().await.unwrap().forget();
                Err::<usize, _>(OwnError::new("busy"))
            };
            elsewhere.op().run(body).await
        }
    });
    until(|| elsewhere.runs() == 1).await;
    let first = tokio::spawn({
        let bench = bench.clone();
        async move { bench.op().repeats_only().run(must_not_run()).await }
    });
    until(|| bench.store.calls(Verb::Watch) > 0).await;
    let second = bench.spawn();
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    go.add_permits(1);
    assert_eq!(failing.await.unwrap().unwrap_err().0, "busy");
    assert_eq!(second.await.unwrap().unwrap(), 1);
    assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::StoreFull);
    bench.at_rest().await;
}
