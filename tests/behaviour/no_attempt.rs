//! Bodies without an attempt of their own, inside bodies that have one: those that run without
//! protection, and those of batches. They must not take the attempt around them for theirs: two of
//! them would derive one key for two requests.

use idempotent_runtime::{
    AnswerPolicy, Error, ErrorKind, Idempotency, Mode, OnStoreError, current,
};
use std::sync::Arc;
use std::time::Duration;
use support::{Bench, both, local, remote, remote_with, strong, until};

fn disabled() -> Idempotency {
    Idempotency::builder().config(strong()).disabled().build().unwrap()
}

/// Notes what a body sees when it is dropped.
struct AtDrop(Arc<std::sync::Mutex<Vec<bool>>>);

impl Drop for AtDrop {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(current().is_some());
    }
}

async fn sees_no_attempt() -> Result<u8, Error> {
    assert!(current().is_none(), "at its first poll");
    tokio::task::yield_now().await;
    assert!(current().is_none(), "after it has waited");
    Ok(1)
}

async fn within<T>(bench: &Bench, inside: impl Future<Output = Result<T, Error>>) -> T
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let body = async {
        let around = current().expect("the outer body has an attempt").derived_key("charge");
        let value = inside.await?;
        assert_eq!(current().unwrap().derived_key("charge"), around);
        Ok::<_, Error>(value)
    };
    bench.op().run(body).await.unwrap()
}

#[tokio::test]
async fn a_body_without_protection_has_no_attempt_inside_another_body_either() {
    for bench in both() {
        let off = disabled();
        let op = || off.operation("inner").key(1);
        let dropped = Arc::default();
        let inside = async {
            op().run(sees_no_attempt()).await?;
            op().run_detached(AnswerPolicy::kept(), sees_no_attempt()).await?;
            op().run_in_place(AnswerPolicy::kept(), sees_no_attempt()).await?;
            let guard = AtDrop(Arc::clone(&dropped));
            let ends = async move {
                let _guard = guard;
                sees_no_attempt().await
            };
            op().run(ends).await?;
            let guard = AtDrop(Arc::clone(&dropped));
            let hangs = async move {
                let _guard = guard;
                std::future::pending().await
            };
            let _: Option<Result<u8, Error>> = support::poll_at_most(2, op().run(hangs)).await;
            Ok(1_u8)
        };
        within(&bench, inside).await;
        assert_eq!(*dropped.lock().unwrap(), [false, false], "its destructors are part of it");
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn a_body_that_the_store_could_not_grant_has_no_attempt_inside_another_body() {
    let (bench, broken) = (local(), remote());
    broken.store.all_down();
    let call = tokio::spawn({
        let (bench, broken) = (bench.clone(), broken.clone());
        async move {
            let op = broken.op().on_store_error(OnStoreError::Run);
            within(&bench, op.run(sees_no_attempt())).await
        }
    });
    until(|| {
        broken.clock.advance(Duration::from_millis(1));
        call.is_finished()
    })
    .await;
    assert_eq!(call.await.unwrap(), 1);
}

#[tokio::test]
async fn the_body_of_a_batch_has_no_attempt_inside_another_body_either() {
    for bench in both() {
        for inner in [bench.idem.clone(), disabled()] {
            let rows = inner.operation("rows").mode(Mode::Strong);
            let body = |rows: Vec<u8>| async move {
                assert!(current().is_none(), "at its first poll");
                tokio::task::yield_now().await;
                assert!(current().is_none(), "after it has waited");
                rows.into_iter().map(Ok::<u8, Error>).collect()
            };
            let inside = async {
                let answers = rows.run_batch([(1, 1_u8), (2, 2)], body).await;
                Ok(answers.into_iter().map(|answer| answer.unwrap().value).sum::<u8>())
            };
            assert_eq!(within(&bench, inside).await, 3);
            bench.op().forget(false).await.unwrap();
        }
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn a_call_that_comes_back_to_its_key_through_such_a_body_is_told_so() {
    for bench in both() {
        let off = disabled();
        let again = || async { bench.op().run(async { Ok::<u8, Error>(9) }).await };
        let inside = async {
            let error = off.operation("inner").key(1).run(again()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Reentrant);
            let rows = bench.idem.operation("rows").mode(Mode::Strong);
            let answers = rows.run_batch([(1, ())], |_| async { vec![again().await] }).await;
            let kinds: Vec<_> = answers.into_iter().map(|it| it.unwrap_err().kind()).collect();
            assert_eq!(kinds, [ErrorKind::Reentrant]);
            Ok(1_u8)
        };
        within(&bench, inside).await;
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn a_call_further_in_than_such_a_body_shares_the_permit_around_it() {
    let bench = remote_with(strong().with_max_concurrent(1));
    let off = disabled();
    let inside = async {
        let innermost = async {
            bench.idem.operation("innermost").key(1).run(async { Ok::<u8, Error>(7) }).await
        };
        off.operation("inner").key(1).run(innermost).await
    };
    assert_eq!(within(&bench, inside).await, 7);
    bench.at_rest().await;
}
