//! The plain API: begin, complete, fail, get, forget, resolve.

use idempotent_runtime::protocol::{Binding, Forgotten, Resolved, StoreExt as _};
use idempotent_runtime::store::State;
use idempotent_runtime::{Abandon, Attempt, Begin, Error, ErrorKind, Mode, Operation, Resolution};
use std::time::Duration;
use support::{LEASE, both, until_async};

async fn fresh(op: &Operation<'_>) -> Attempt {
    match op.begin().await.unwrap() {
        Begin::Fresh(attempt) => attempt,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn begin_and_complete_by_hand() {
    for bench in both() {
        let op = bench.op().wait(Duration::ZERO);
        let attempt = fresh(&op).await;
        assert_eq!(attempt.number(), 1);
        assert!(matches!(op.begin().await.unwrap(), Begin::InFlight { .. }));
        attempt.complete(&"done").await.unwrap();
        match op.begin().await.unwrap() {
            Begin::Replay(stored) => {
                assert_eq!(stored.decode::<String>().unwrap(), "done");
                assert_eq!(stored.decode::<u64>().unwrap_err().kind(), ErrorKind::Undecodable);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn fail_by_hand_frees_the_key_and_for_good_keeps_the_error() {
    for bench in both() {
        let op = bench.op();
        fresh(&op).await.fail().await.unwrap();
        let second = fresh(&op).await;
        assert_eq!(second.number(), 2);
        second.fail_for_good(&"no").await.unwrap();
        match op.begin().await.unwrap() {
            Begin::ReplayError(stored) => assert_eq!(stored.decode::<String>().unwrap(), "no"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_released_attempt_does_not_count() {
    for bench in both() {
        let op = bench.op();
        fresh(&op).await.release().await.unwrap();
        assert!(op.get().await.unwrap().is_none(), "a first one leaves nothing behind");
        fresh(&op).await.fail().await.unwrap();
        for _ in 0..2 {
            let attempt = fresh(&op).await;
            assert_eq!(attempt.number(), 2);
            attempt.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_dropped_attempt_counts_as_started() {
    for bench in both() {
        let op = bench.op().abandon(Abandon::Block);
        drop(fresh(&op).await);
        until_async(|| async { op.get().await.unwrap().unwrap().head.state == State::Abandoned })
            .await;
        match op.begin().await.unwrap() {
            Begin::Indeterminate { attempt } => assert_eq!(attempt, 1),
            other => panic!("{other:?}"),
        }
        let answer = op.resolve::<()>(Resolution::Retry).await.unwrap();
        assert_eq!(answer, Resolved::Done);
        assert_eq!(fresh(&op).await.number(), 2);
    }
}

#[tokio::test]
async fn an_attempt_by_hand_is_renewed() {
    for bench in both() {
        let op = bench.op();
        let attempt = fresh(&op).await;
        for _ in 0..6 {
            bench.clock.advance(LEASE / 3);
            until_async(|| async {
                let record = op.get().await.unwrap().unwrap();
                record.head.lease_left(record.ttl) == LEASE
            })
            .await;
        }
        attempt.complete(&1).await.unwrap();
    }
}

#[tokio::test]
async fn forget_removes_an_answer_and_frees_a_held_key_only_by_force() {
    for bench in both() {
        let op = bench.op();
        assert_eq!(op.forget(false).await.unwrap(), Forgotten::NotFound);
        bench.run().await.unwrap();
        assert_eq!(op.forget(false).await.unwrap(), Forgotten::Deleted);
        let attempt = fresh(&op).await;
        assert_eq!(op.forget(false).await.unwrap(), Forgotten::Held);
        assert_eq!(op.forget(true).await.unwrap(), Forgotten::Freed);
        let error = attempt.complete(&1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Superseded);
        assert_eq!(fresh(&op).await.number(), 2);
    }
}

#[tokio::test]
async fn resolve_leaves_alone_what_is_not_unknown() {
    for bench in both() {
        let op = bench.op();
        let retry = || op.resolve::<()>(Resolution::Retry);
        assert_eq!(retry().await.unwrap(), Resolved::NotFound);
        bench.run().await.unwrap();
        assert_eq!(retry().await.unwrap(), Resolved::NotIndeterminate(State::Succeeded));
        assert_eq!(bench.run().await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_window_by_hand_needs_no_end() {
    for bench in both() {
        let op = bench.op().mode(Mode::Window).expire(Duration::from_secs(5));
        drop(fresh(&op).await);
        match op.begin().await.unwrap() {
            Begin::Taken { retry_after } => assert_eq!(retry_after, Duration::from_secs(5)),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn values_by_hand_and_by_run_are_the_same() {
    for bench in both() {
        fresh(&bench.op()).await.complete(&11_usize).await.unwrap();
        assert_eq!(bench.run().await.unwrap(), 11);
        let replayed: Result<usize, Error> = bench.op().run(async { Ok(0) }).await;
        assert_eq!(replayed.unwrap(), 11);
    }
}

#[tokio::test]
async fn a_lost_attempt_cannot_pass_its_answer_off_as_the_resolved_one() {
    for bench in both() {
        let op = bench.op().abandon(Abandon::Block);
        let lost = fresh(&op).await;
        let (key, id) = (op.record_key().unwrap(), id(&op).await);
        bench.idem.store().abandon(&key, &id, LEASE, Binding::Lifted).await.unwrap();
        op.resolve(Resolution::Succeeded(Some(&"resolved"))).await.unwrap();
        let error = lost.complete(&"late").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Superseded);
        let answer = op.run(async { Ok::<_, Error>(String::new()) }).await.unwrap();
        assert_eq!(answer, "resolved");
    }
}

async fn id(op: &Operation<'_>) -> idempotent_runtime::store::AttemptId {
    op.get().await.unwrap().unwrap().head.attempt
}

#[tokio::test]
async fn impossible_durations_are_refused_before_anything_runs() {
    for bench in both() {
        for op in [bench.op().expire(Duration::ZERO), bench.op().lease(Duration::from_millis(1))] {
            let error = op.run(async { Ok::<u8, Error>(1) }).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            assert!(!error.body_ran());
        }
    }
}
