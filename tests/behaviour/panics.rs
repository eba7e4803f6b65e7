//! A panic is recorded and goes on.

use idempotent_runtime::codec::{CodecError, StoredBytes};
use idempotent_runtime::store::State;
use idempotent_runtime::{Abandon, AnswerPolicy, Error, ErrorKind, Mode};
use serde::{Deserialize, Serialize, Serializer};
use std::time::Duration;
use support::{both, until};

#[tokio::test]
async fn a_panic_goes_on_and_frees_the_key() {
    for bench in both() {
        let task = tokio::spawn({
            let bench = bench.clone();
            async move {
                let body = async {
                    bench.ledger.record("k");
                    panic!("boom");
                };
                bench.op().run::<usize, Error, _>(body).await
            }
        });
        let panic = task.await.unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"boom"));
        assert_eq!(bench.run().await.unwrap(), 2);
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn after_a_panic_one_waiter_runs_and_none_hangs() {
    for bench in both() {
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let first = tokio::spawn({
            let bench = bench.clone();
            async move {
                let body = async {
                    bench.ledger.record("k");
                    wait.await.unwrap();
                    panic!("boom");
                };
                bench.op().run::<usize, Error, _>(body).await
            }
        });
        until(|| bench.runs() == 1).await;
        let waiters: Vec<_> = (0..10).map(|_| bench.spawn()).collect();
        tokio::task::yield_now().await;
        go.send(()).unwrap();
        assert!(first.await.unwrap_err().is_panic());
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap().unwrap(), 2);
        }
    }
}

#[tokio::test]
async fn after_a_panic_a_blocked_key_is_indeterminate() {
    for bench in both() {
        let task = tokio::spawn({
            let bench = bench.clone();
            async move {
                let op = bench.op().abandon(Abandon::Block);
                op.run::<usize, Error, _>(async { panic!("boom") }).await
            }
        });
        assert!(task.await.unwrap_err().is_panic());
        bench.at_rest().await;
        let error = bench.run().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate);
        assert_eq!(bench.runs(), 0);
    }
}

/// A value whose encoding panics.
#[derive(Debug, PartialEq, Deserialize)]
struct Bomb;

impl Serialize for Bomb {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("boom")
    }
}

#[tokio::test]
async fn a_value_whose_encoding_panics_is_recorded_without_it() {
    for bench in both() {
        let run = || {
            bench.op().run(async {
                bench.ledger.record("k");
                Ok::<_, Error>(Bomb)
            })
        };
        assert_eq!(run().await.unwrap(), Bomb);
        let error = run().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResultUnavailable);
        assert_eq!(bench.runs(), 1);
        let record = bench.op().get().await.unwrap().unwrap();
        assert_eq!((record.head.state, record.value), (State::Succeeded, None));
    }
}

/// A value that brings its own bytes, and panics over those that it is named after.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bytes {
    Unwritable,
    Unreadable,
}

impl StoredBytes for Bytes {
    fn write_to(&self, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        assert_ne!(*self, Self::Unwritable);
        bytes.push(1);
        Ok(())
    }

    fn from_bytes(_: &[u8]) -> Result<Self, CodecError> {
        panic!("boom")
    }
}

#[tokio::test]
async fn a_value_whose_own_bytes_panic_is_not_run_for_again() {
    for (value, repeat) in [
        (Bytes::Unwritable, ErrorKind::ResultUnavailable),
        (Bytes::Unreadable, ErrorKind::Undecodable),
    ] {
        for bench in both() {
            let body = || {
                let ledger = bench.ledger.clone();
                async move {
                    ledger.record("k");
                    Ok::<_, Error>(value)
                }
            };
            let first = bench.op().run_as(AnswerPolicy::bytes(), body()).await.unwrap();
            assert_eq!(first.value, value);
            let run = bench.op().run_as(AnswerPolicy::bytes(), body()).await;
            assert_eq!(run.unwrap_err().kind(), repeat);
            let in_place = bench.op().run_in_place(AnswerPolicy::bytes(), body()).await;
            assert_eq!(in_place.unwrap_err().kind(), repeat);
            assert_eq!(bench.runs(), 1);

            bench.op().forget(false).await.unwrap();
            let moved = bench.op().run_in_place(AnswerPolicy::bytes(), body()).await.unwrap();
            assert_eq!((moved.value, bench.runs()), (value, 2));
        }
    }
}

#[tokio::test]
async fn a_hook_that_panics_does_not_undo_what_the_body_did() {
    for bench in both() {
        let answers = || {
            AnswerPolicy::<usize, Error>::kept()
                .expire_with(|_| -> Duration { panic!("boom") })
                .on_replay(|_| panic!("boom"))
        };
        let body = || async { Ok(bench.ledger.record("k")) };
        let run = || bench.op().mode(Mode::Strong).run_as(answers(), body());
        assert_eq!(run().await.unwrap().value, 1);
        assert!(run().await.unwrap().replayed);
        assert_eq!(bench.runs(), 1);
    }
}
