//! Keys that stay bound to their payload after a failure.

use idempotent_runtime::protocol::{Forgotten, Resolved};
use idempotent_runtime::store::State;
use idempotent_runtime::testing::{Verb, scoped};
use idempotent_runtime::{
    Abandon, Begin, Error, ErrorKind, Fingerprint, Operation, Outcome, Resolution, idempotent,
};
use std::future::pending;
use support::{Bench, LEASE, both, neighbour, remote, until, until_async};

#[derive(Debug)]
enum Failed {
    Body,
    Refused(ErrorKind),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        assert!(!error.body_ran(), "{error}");
        Self::Refused(error.kind())
    }
}

#[idempotent(
    key = "id",
    fingerprint = "cents",
    bind_payload_after_failure,
    mode = "strong",
    name = "binding.on"
)]
async fn pay_bound(id: u64, cents: u64, fails: bool) -> Result<u64, Failed> {
    if fails { Err(Failed::Body) } else { Ok(cents) }
}

#[idempotent(key = "id", fingerprint = "cents", mode = "strong", name = "binding.off")]
async fn pay_unbound(id: u64, cents: u64, fails: bool) -> Result<u64, Failed> {
    if fails { Err(Failed::Body) } else { Ok(cents) }
}

#[tokio::test]
async fn after_a_failure_another_payload_is_refused_and_the_same_one_runs() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            assert!(matches!(pay_bound(1, 100, true).await, Err(Failed::Body)));
            for _ in 0..2 {
                let other = pay_bound(1, 900, false).await;
                assert!(matches!(other, Err(Failed::Refused(ErrorKind::Mismatch))), "{other:?}");
            }
            assert!(matches!(pay_bound(1, 100, true).await, Err(Failed::Body)));
            assert_eq!(pay_bound(1, 100, false).await.unwrap(), 100);
            let other = pay_bound(1, 900, false).await;
            assert!(matches!(other, Err(Failed::Refused(ErrorKind::Mismatch))), "{other:?}");
        })
        .await;
    }
}

#[tokio::test]
async fn without_it_another_payload_runs_after_a_failure() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            assert!(matches!(pay_unbound(1, 100, true).await, Err(Failed::Body)));
            assert_eq!(pay_unbound(1, 900, false).await.unwrap(), 900);
        })
        .await;
    }
}

/// An operation by hand whose key stays bound.
fn bound<'a>(bench: &'a Bench, payload: &str) -> Operation<'a> {
    bench.op().fingerprint(Fingerprint::of(payload)).bind_payload_after_failure(true)
}

async fn fails(operation: Operation<'_>) {
    let failed = operation.run(async { Err::<u8, _>(Failed::Body) }).await;
    assert!(matches!(failed, Err(Failed::Body)), "{failed:?}");
}

async fn is_mismatch(operation: Operation<'_>) {
    let answer = operation.run(async { Ok::<u8, Failed>(0) }).await;
    assert!(matches!(answer, Err(Failed::Refused(ErrorKind::Mismatch))), "{answer:?}");
}

async fn runs(operation: Operation<'_>) -> Outcome<u8> {
    let outcome = operation.run_detailed(async { Ok::<u8, Failed>(7) }).await.unwrap();
    assert!(!outcome.replayed);
    outcome
}

#[tokio::test]
async fn by_hand_it_is_off_until_it_is_switched_on() {
    for bench in both() {
        let one = Fingerprint::of("one");
        fails(bench.op().fingerprint(one)).await;
        assert_eq!(runs(bench.op().fingerprint(Fingerprint::of("two"))).await.attempt, 2);

        let op = |payload| bound(&bench, payload).key("off");
        fails(op("one").bind_payload_after_failure(false)).await;
        assert_eq!(runs(op("two")).await.attempt, 2);
    }
}

#[tokio::test]
async fn a_call_without_a_payload_runs_and_leaves_the_key_unbound() {
    for bench in both() {
        fails(bound(&bench, "one")).await;
        fails(bench.op().bind_payload_after_failure(true)).await;
        assert_eq!(runs(bound(&bench, "two")).await.attempt, 3);
    }
}

/// The record says it: what the function says that asks makes no difference.
#[tokio::test]
async fn a_bound_key_binds_functions_that_bind_none() {
    for bench in both() {
        fails(bound(&bench, "one")).await;
        let lenient = |payload| bench.op().fingerprint(Fingerprint::of(payload));
        is_mismatch(lenient("two")).await;
        // It runs, and lifts the binding.
        fails(lenient("one")).await;
        runs(lenient("two")).await;
    }
}

#[tokio::test]
async fn a_body_that_is_dropped_or_panics_leaves_its_key_bound() {
    for bench in both() {
        for panics in [false, true] {
            let key = format!("panics: {panics}");
            let (held, name) = (bench.clone(), key.clone());
            let call = tokio::spawn(async move {
                let body = async {
                    held.ledger.record(&name);
                    assert!(!panics, "the body panics");
                    pending::<Result<u8, Failed>>().await
                };
                bound(&held, "one").key(&*name).run(body).await
            });
            until(|| bench.ledger.ran(&key) == 1).await;
            call.abort();
            assert!(call.await.is_err());
            let op = |payload| bound(&bench, payload).key(&*key);
            until_async(|| async {
                let record = op("one").get().await.unwrap().unwrap();
                record.head.state == State::FailedFree
            })
            .await;
            is_mismatch(op("two")).await;
            assert_eq!(runs(op("one")).await.attempt, 2);
        }
    }
}

#[tokio::test]
async fn a_value_that_is_not_kept_leaves_its_key_bound() {
    for bench in both() {
        let answers = || {
            let answers = idempotent_runtime::AnswerPolicy::<u8, Failed>::kept();
            answers.expire_with(|_| std::time::Duration::ZERO)
        };
        bound(&bench, "one").run_as(answers(), async { Ok(1) }).await.unwrap();
        is_mismatch(bound(&bench, "two")).await;
        assert_eq!(runs(bound(&bench, "one")).await.attempt, 2);
    }
}

#[tokio::test]
async fn an_attempt_by_hand_that_fails_leaves_its_key_bound() {
    for bench in both() {
        let Begin::Fresh(attempt) = bound(&bench, "one").begin().await.unwrap() else {
            panic!("not fresh")
        };
        attempt.fail().await.unwrap();
        assert!(matches!(bound(&bench, "two").begin().await.unwrap(), Begin::Mismatch));
        let Begin::Fresh(attempt) = bound(&bench, "one").begin().await.unwrap() else {
            panic!("not fresh")
        };
        attempt.complete(&1_u8).await.unwrap();
    }
}

/// A moment before its body starts at which the caller of a second attempt goes away.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leaves {
    Beginning,
    BeginningABatch,
    Arming,
}

/// The release must not free the key that the first attempt bound.
#[tokio::test]
async fn a_release_of_a_later_attempt_leaves_the_key_bound() {
    use Leaves::{Arming, Beginning, BeginningABatch};
    for leaves in [Beginning, BeginningABatch, Arming] {
        let bench = remote();
        fails(bound(&bench, "one")).await;
        let failed = bound(&bench, "one").get().await.unwrap().unwrap().head.attempt;
        let gate = match leaves {
            Arming => bench.store.hold(Verb::Arm),
            _ => bench.store.hold_after(Verb::Begin),
        };
        let caller = bench.clone();
        let call = tokio::spawn(async move {
            let op = bound(&caller, "one").abandon(Abandon::Block);
            if leaves == BeginningABatch {
                let body = |items: Vec<u8>| async {
                    items.into_iter().map(Ok::<u8, Failed>).collect::<Vec<_>>()
                };
                drop(op.run_batch([("k", 0)], body).await);
            } else {
                drop(op.run(async { Ok::<u8, Failed>(0) }).await);
            }
        });
        gate.arrived(1).await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        gate.open();
        until_async(|| async {
            let record = bound(&bench, "one").get().await.unwrap().unwrap();
            record.head.state == State::FailedFree && record.head.attempt.fence > failed.fence
        })
        .await;
        is_mismatch(bound(&bench, "two")).await;
        // Of the released attempt no body has started: it does not count.
        assert_eq!(runs(bound(&bench, "one")).await.attempt, 2, "{leaves:?}");
    }
}

/// Callers that wait for a body of another payload, here or in another process, never run theirs.
#[tokio::test]
async fn those_who_waited_for_a_failed_attempt_run_only_with_its_payload() {
    for bench in both() {
        let elsewhere = neighbour(&bench);
        for (key, process) in [("here", &bench), ("elsewhere", &elsewhere)] {
            let Begin::Fresh(held) = bound(&bench, "one").key(key).begin().await.unwrap() else {
                panic!("not fresh")
            };
            let wait = |payload: &'static str| {
                let process = process.clone();
                tokio::spawn(async move {
                    let op = bound(&process, payload).key(key).wait(LEASE);
                    op.run(async { Ok::<u8, Failed>(7) }).await
                })
            };
            let calls = (wait("one"), wait("two"));
            // They end alike whenever they ask; most of them do before the failure.
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            held.fail().await.unwrap();
            assert_eq!(calls.0.await.unwrap().unwrap(), 7, "{key}");
            let other = calls.1.await.unwrap();
            assert!(matches!(other, Err(Failed::Refused(ErrorKind::Mismatch))), "{key}: {other:?}");
        }
    }
}

/// A caller that meets others while nobody knows yet whose payload will run asks for itself once that
/// is known.
#[tokio::test]
async fn a_caller_that_waits_for_a_begin_of_another_payload_is_refused_after_its_failure() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Begin);
    let call = |payload: &'static str, answer: Result<u8, Failed>| {
        let bench = bench.clone();
        tokio::spawn(async move { bound(&bench, payload).run(async { answer }).await })
    };
    let first = call("one", Err(Failed::Body));
    gate.arrived(1).await;
    let second = call("two", Ok(2));
    tokio::task::yield_now().await;
    gate.open();
    assert!(matches!(first.await.unwrap(), Err(Failed::Body)));
    let second = second.await.unwrap();
    assert!(matches!(second, Err(Failed::Refused(ErrorKind::Mismatch))), "{second:?}");
    bench.at_rest().await;
}

#[tokio::test]
async fn an_operator_frees_the_key_for_any_payload() {
    for bench in both() {
        for force in [false, true] {
            let op = |payload| bound(&bench, payload).key(force);
            fails(op("one")).await;
            is_mismatch(op("two")).await;
            assert_eq!(op("two").forget(force).await.unwrap(), Forgotten::Freed);
            assert_eq!(runs(op("two")).await.attempt, 2);
        }
        let op = |payload| bound(&bench, payload).key("unknown").abandon(Abandon::Block);
        drop(op("one").begin().await.unwrap());
        until_async(|| async {
            op("one").get().await.unwrap().unwrap().head.state == State::Abandoned
        })
        .await;
        is_mismatch(op("two")).await;
        let retry = Resolution::<Option<&u8>>::Retry;
        assert_eq!(op("two").resolve(retry).await.unwrap(), Resolved::Done);
        assert_eq!(runs(op("two")).await.attempt, 2);
    }
}

/// A batch has one payload for all of its keys.
#[tokio::test]
async fn the_keys_of_a_batch_that_failed_stay_bound() {
    for bench in both() {
        let run = |payload, fails: Option<u8>| {
            let body = move |items: Vec<u8>| async move {
                let answer = |item| if fails == Some(item) { Err(Failed::Body) } else { Ok(item) };
                items.into_iter().map(answer).collect()
            };
            bound(&bench, payload).run_batch([1_u8, 2, 3].map(|key| (key, key)), body)
        };
        let kinds = |answers: Vec<Result<Outcome<u8>, Failed>>| -> Vec<_> {
            let kind = |answer| match answer {
                Ok(Outcome { value, .. }) => Ok(value),
                Err(Failed::Body) => Err(None),
                Err(Failed::Refused(kind)) => Err(Some(kind)),
            };
            answers.into_iter().map(kind).collect()
        };
        assert_eq!(kinds(run("one", Some(2)).await), [Ok(1), Err(None), Ok(3)]);
        let mismatch = Err(Some(ErrorKind::Mismatch));
        assert_eq!(kinds(run("two", None).await), [mismatch; 3]);
        assert_eq!(kinds(run("one", None).await), [Ok(1), Ok(2), Ok(3)]);
        bench.at_rest().await;
    }
}
