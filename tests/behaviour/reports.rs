//! Reports of calls, by which adapters act on an outcome whatever the error type of the function is.

use idempotent_runtime::ambient::{self, Ambient, CallReport};
use idempotent_runtime::observe::Ending;
use idempotent_runtime::testing::Verb;
use idempotent_runtime::{AnswerPolicy, Error, ErrorKind, Mode, OnUnrecorded};
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::time::Duration;
use support::{both, neighbour, remote};

/// An error that says nothing of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Opaque {
    Declined,
    Other,
}

impl From<Error> for Opaque {
    fn from(_: Error) -> Self {
        Self::Other
    }
}

async fn report_of<T>(call: impl Future<Output = T>) -> CallReport {
    ambient::reported(Ambient::new(), call).await.1.expect("a call was made")
}

#[tokio::test]
async fn a_run_and_its_replay_are_reported() {
    for bench in both() {
        let run = || bench.op().run(async { Ok::<u8, Opaque>(1) });
        assert_eq!(report_of(run()).await.ending, Ending::Executed);
        let again = report_of(run()).await;
        assert_eq!((again.ending, again.refusal, again.is_final), (Ending::Replayed, None, false));
    }
}

#[tokio::test]
async fn an_error_that_is_kept_is_final_for_the_run_and_for_every_repeat() {
    for bench in both() {
        for (key, error, is_final) in [("a", Opaque::Declined, true), ("b", Opaque::Other, false)] {
            let answers = || AnswerPolicy::kept().final_errors(|error| *error == Opaque::Declined);
            let call = || {
                let op = bench.idem.operation("reports").key(key).mode(Mode::Strong);
                op.run_as(answers(), async move { Err::<u8, _>(error) })
            };
            let first = report_of(call()).await;
            assert_eq!((first.ending, first.is_final), (Ending::Failed, is_final), "{key}");
            let again = report_of(call()).await;
            let ending = if is_final { Ending::Replayed } else { Ending::Failed };
            assert_eq!((again.ending, again.is_final), (ending, is_final), "{key}");
        }
    }
}

#[tokio::test]
async fn a_refusal_is_reported_with_its_kind_and_its_pause() {
    let bench = remote();
    let elsewhere = neighbour(&bench);
    let gate = bench.store.hold(Verb::Complete);
    let caller = bench.clone();
    let runs = tokio::spawn(async move { caller.op().run(async { Ok::<u8, Opaque>(1) }).await });
    gate.arrived(1).await;
    let call = elsewhere.op().mode(Mode::Reject).run(async { Ok::<u8, Opaque>(2) });
    let report = report_of(call).await;
    assert_eq!((report.ending, report.refusal), (Ending::InProgress, Some(ErrorKind::InProgress)));
    assert!(report.retry_after.is_some() && !report.is_final);
    gate.open();
    runs.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_value_that_is_not_recorded_is_reported_as_such() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Complete);
    let op = bench.op().on_unrecorded(OnUnrecorded::Error);
    let call = report_of(op.run(async { Ok::<u8, Opaque>(1) }));
    let passes = async {
        gate.arrived(1).await;
        bench.clock.advance(support::LEASE * 2);
    };
    let (report, ()) = tokio::join!(call, passes);
    assert_eq!((report.ending, report.refusal), (Ending::Executed, Some(ErrorKind::Unrecorded)));
    gate.open();
}

#[tokio::test]
async fn the_outer_call_is_reported_and_not_those_of_its_body() {
    for bench in both() {
        let inner = || async {
            let op = bench.idem.operation("inner").key("k");
            op.run(async { Err::<u8, _>(Opaque::Other) }).await
        };
        let outer = bench.op().run(async {
            inner().await.unwrap_err();
            Ok::<u8, Opaque>(1)
        });
        assert_eq!(report_of(outer).await.ending, Ending::Executed);
    }
}

#[tokio::test]
async fn calls_beside_each_other_are_counted_and_those_in_a_body_are_not() {
    for bench in both() {
        let op = |key: u8| bench.idem.operation("reports").key(key).mode(Mode::Strong);
        let run = |key: u8| op(key).run(async move { Ok::<u8, Opaque>(key) });
        let beside = report_of(async { tokio::join!(run(1), run(2)) }).await;
        assert_eq!(beside.calls, 2);
        let in_a_body = report_of(op(3).run(async { run(4).await })).await;
        assert_eq!(in_a_body.calls, 1);
        let batch = op(5).run_batch([(6, ()), (7, ())], |items: Vec<()>| async move {
            items.iter().map(|()| Ok::<u8, Opaque>(0)).collect()
        });
        assert_eq!(report_of(batch).await.calls, 2);
    }
}

#[tokio::test]
async fn mode_and_retention_are_those_of_the_outer_call() {
    let minute = Duration::from_secs(60);
    for bench in both() {
        let outer = || bench.op().mode(Mode::Reject).expire(minute);
        let call = || {
            outer().run(async {
                let inner = bench.idem.operation("inner").key("k").mode(Mode::Window);
                let _ = inner.expire(minute * 2).run(async { Ok::<u8, Opaque>(1) }).await;
                Ok::<u8, Opaque>(1)
            })
        };
        for _ in 0..2 {
            let report = report_of(call()).await;
            assert_eq!((report.mode, report.retention), (Some(Mode::Reject), Some(minute)));
        }
        let invalid = report_of(outer().expire(Duration::ZERO).run(async { Ok::<u8, Opaque>(1) }));
        let report = invalid.await;
        assert_eq!((report.refusal, report.mode), (Some(ErrorKind::Misconfigured), None));
    }
}

#[tokio::test]
async fn the_retention_that_the_body_chose_is_reported() {
    const HOUR: Duration = Duration::from_secs(3_600);
    for bench in both() {
        let answers = AnswerPolicy::kept().expire_with(|_: &u8| HOUR);
        let report = report_of(bench.op().run_as(answers, async { Ok::<u8, Opaque>(1) })).await;
        assert_eq!((report.retention, report.body_ran), (Some(HOUR), true));
    }
}

#[tokio::test]
async fn nothing_is_reported_where_no_call_was_made() {
    let ((), report) = ambient::reported(Ambient::new(), async {}).await;
    assert_eq!(report, None);
}
