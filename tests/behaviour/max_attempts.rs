//! `max_attempts`: a body starts no more often than it may, in all processes together.

use idempotent_runtime::ambient::{self, Ambient, CallReport};
use idempotent_runtime::observe::Ending;
use idempotent_runtime::store::State;
use idempotent_runtime::testing::Verb;
use idempotent_runtime::{Error, ErrorKind};
use support::{Bench, both, neighbour, remote, until_async};

#[derive(Debug)]
enum Failed {
    Busy,
    Refused(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

fn limited() -> Ambient {
    Ambient::new().max_attempts(2)
}

/// A call whose body fails, under the limit.
async fn fails(bench: &Bench) -> (Result<u8, Failed>, CallReport) {
    let call = bench.op().run(async {
        bench.ledger.record("k");
        Err::<u8, _>(Failed::Busy)
    });
    let (answer, report) = ambient::reported(limited(), call).await;
    (answer, report.unwrap())
}

#[tokio::test]
async fn a_body_that_has_started_as_often_as_it_may_does_not_start_again() {
    for bench in both() {
        for run in 1..=2 {
            let (_, report) = fails(&bench).await;
            assert_eq!((report.ending, report.is_final), (Ending::Failed, false));
            assert_eq!(bench.runs(), run);
        }
        for _ in 0..2 {
            let (answer, report) = fails(&bench).await;
            let Err(Failed::Refused(error)) = answer else { panic!("{answer:?}") };
            assert_eq!((error.kind(), error.body_ran()), (ErrorKind::FailedBefore, false));
            assert!(!error.is_retryable() && report.is_final, "{error}");
            assert_eq!(report.refusal, Some(ErrorKind::FailedBefore));
            until_async(|| async {
                let record = bench.op().get().await.unwrap().unwrap();
                record.head.state == State::FailedFinal
            })
            .await;
        }
        assert_eq!(bench.runs(), 2);
        // For callers without a limit it is over as well.
        let error = bench.op().run(async { Ok::<u8, Error>(1) }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedBefore);
    }
}

#[tokio::test]
async fn starts_are_counted_in_all_processes() {
    let bench = remote();
    let elsewhere = neighbour(&bench);
    drop(fails(&bench).await);
    drop(fails(&elsewhere).await);
    let (_, report) = fails(&bench).await;
    assert!(report.is_final);
    assert_eq!(bench.runs() + elsewhere.runs(), 2);
}

/// Its caller goes away after the store has granted it.
#[tokio::test]
async fn an_attempt_that_never_started_does_not_count() {
    let bench = remote();
    drop(fails(&bench).await);
    let failed = bench.op().get().await.unwrap().unwrap().head.attempt;
    for _ in 0..3 {
        let gate = bench.store.hold_after(Verb::Begin);
        let caller = bench.clone();
        let call = tokio::spawn(async move { drop(fails(&caller).await) });
        gate.arrived(1).await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        gate.open();
        until_async(|| async {
            let record = bench.op().get().await.unwrap().unwrap();
            record.head.state == State::FailedFree && record.head.attempt.fence > failed.fence
        })
        .await;
    }
    let (_, report) = fails(&bench).await;
    assert_eq!((report.ending, bench.runs()), (Ending::Failed, 2));
}

#[tokio::test]
async fn calls_inside_a_body_are_not_limited() {
    for bench in both() {
        let inner = || async {
            let op = bench.idem.operation("inner").key("k");
            op.run(async { Err::<u8, _>(Failed::Busy) }).await
        };
        for _ in 0..3 {
            assert!(matches!(inner().await, Err(Failed::Busy)));
        }
        let outer = bench.op().run(async {
            assert!(matches!(inner().await, Err(Failed::Busy)));
            Ok::<u8, Failed>(1)
        });
        assert_eq!(ambient::scope(limited(), outer).await.unwrap(), 1);
    }
}
