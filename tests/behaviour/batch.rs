//! Batches: many keys, one body.

use idempotent_runtime::store::{State, StoreErrorKind};
use idempotent_runtime::testing::{Fault, Verb};
use idempotent_runtime::{Abandon, Error, ErrorKind, Mode, Outcome};
use std::time::Duration;
use support::{Bench, LEASE, OwnError, both, poll_at_most, remote, until, until_async};

type Answers = Vec<Result<Outcome<usize>, Error>>;

/// Runs a batch whose body notes each item and answers with the item itself.
async fn run(bench: &Bench, keys: &[usize]) -> Answers {
    let items = keys.iter().map(|key| (*key, *key));
    let body = |items: Vec<usize>| async move {
        let note = |item| {
            bench.ledger.record(format!("{item}"));
            Ok(item)
        };
        items.into_iter().map(note).collect()
    };
    bench.op().run_batch(items, body).await
}

/// Runs a batch of keys 1 and 2, and moves the clock whenever it pauses.
async fn run_to_end(bench: &Bench) -> Answers {
    let batch = tokio::spawn({
        let bench = bench.clone();
        async move { run(&bench, &[1, 2]).await }
    });
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        batch.is_finished()
    })
    .await;
    batch.await.unwrap()
}

fn values(answers: Answers) -> Vec<(usize, bool)> {
    answers.into_iter().map(Result::unwrap).map(|it| (it.value, it.replayed)).collect()
}

#[tokio::test]
async fn each_key_of_a_batch_runs_once_and_is_replayed_in_order() {
    for bench in both() {
        assert_eq!(values(run(&bench, &[3, 1]).await), [(3, false), (1, false)]);
        let second = values(run(&bench, &[1, 2, 3]).await);
        assert_eq!(second, [(1, true), (2, false), (3, true)]);
        assert_eq!([1, 2, 3].map(|key| bench.ledger.ran(&format!("{key}"))), [1, 1, 1]);
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn a_batch_and_a_single_call_share_their_records() {
    for bench in both() {
        run(&bench, &[1]).await;
        let answer: Result<usize, Error> = bench.op().key(1_usize).run(async { Ok(9) }).await;
        assert_eq!(answer.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_key_that_occurs_twice_runs_once() {
    for bench in both() {
        let answers = values(run(&bench, &[7, 7, 8, 7]).await);
        assert_eq!(answers, [(7, false), (7, true), (8, false), (7, true)]);
        assert_eq!(bench.ledger.ran("7"), 1);
    }
}

#[tokio::test]
async fn one_that_fails_frees_its_key_and_leaves_the_others_alone() {
    for bench in both() {
        let body = |items: Vec<u8>| async move {
            let answer = |item| if item == 2 { Err(OwnError::new("no")) } else { Ok(item) };
            items.into_iter().map(answer).collect()
        };
        let items = [1_u8, 2, 3].map(|key| (key, key));
        let answers = bench.op().run_batch(items, body).await;
        assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
        let state = bench.op().key(2_u8).get().await.unwrap().unwrap().head.state;
        assert_eq!(state, State::FailedFree);
        bench.at_rest().await;
    }
}

/// The end of a failed row is recorded before the batch returns: nobody has to wait for it.
#[tokio::test]
async fn a_failed_row_runs_again_as_soon_as_the_batch_has_returned() {
    for mode in [Mode::Strong, Mode::Reject] {
        for abandon in [Abandon::Retry, Abandon::Block] {
            for bench in both() {
                let op = || bench.op().mode(mode).abandon(abandon).wait(Duration::ZERO);
                let body = |items: Vec<u8>| async move {
                    let answer = |item| if item == 2 { Err(OwnError::new("no")) } else { Ok(item) };
                    items.into_iter().map(answer).collect()
                };
                let answers = op().run_batch([1_u8, 2, 3].map(|key| (key, key)), body).await;
                assert_eq!(answers[1].as_ref().unwrap_err().0, "no");
                let again: Result<u8, Error> = op().key(2_u8).run(async { Ok(9) }).await;
                assert_eq!(again.unwrap(), 9, "{mode:?}, {abandon:?}");
                bench.at_rest().await;
            }
        }
    }
}

#[tokio::test]
async fn what_runs_elsewhere_is_in_progress_and_not_waited_for() {
    for bench in both() {
        let held = bench.op().key(2_usize).begin().await.unwrap();
        let answers = run(&bench, &[1, 2]).await;
        assert_eq!(answers[0].as_ref().unwrap().value, 1);
        let error = answers[1].as_ref().unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::InProgress, false));
        drop(held);
    }
}

#[tokio::test]
async fn a_body_that_answers_too_little_leaves_its_attempts_abandoned() {
    for bench in both() {
        let items = [1_usize, 2].map(|key| (key, key));
        let body = |_| async { vec![Ok::<usize, Error>(1)] };
        let answers = bench.op().abandon(Abandon::Block).run_batch(items, body).await;
        for answer in answers {
            let error = answer.unwrap_err();
            assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Misconfigured, true));
            assert!(error.message().contains("answered 1 of 2"), "{error}");
        }
        bench.at_rest().await;
        until_async(|| async {
            let record = bench.op().key(1_usize).get().await.unwrap().unwrap();
            record.head.state == State::Abandoned
        })
        .await;
    }
}

#[tokio::test]
async fn a_batch_dropped_at_any_poll_leaves_no_key_held() {
    for polls in 1..12 {
        let bench = remote();
        let body = |items: Vec<usize>| async move {
            tokio::task::yield_now().await;
            items.into_iter().map(Ok::<_, Error>).collect()
        };
        let items = [1_usize, 2].map(|key| (key, key));
        let _ = poll_at_most(polls, bench.op().run_batch(items, body)).await;
        bench.at_rest().await;
        for key in [1_usize, 2] {
            until_async(|| async {
                let record = bench.op().key(key).get().await.unwrap();
                record.is_none_or(|record| record.head.state != State::Processing)
            })
            .await;
        }
        for answer in run(&bench, &[1, 2]).await {
            answer.unwrap();
        }
    }
}

#[tokio::test]
async fn a_begin_whose_answer_was_lost_is_recognised_as_the_batchs_own() {
    let bench = remote();
    bench.store.fault_at(Verb::Begin, 1, Fault::After(StoreErrorKind::Unavailable));
    assert_eq!(values(run_to_end(&bench).await), [(1, false), (2, false)]);
    assert_eq!([1, 2].map(|key| bench.ledger.ran(&format!("{key}"))), [1, 1]);
}

#[tokio::test]
async fn begins_of_a_batch_that_were_not_answered_are_released() {
    let lost = StoreErrorKind::Unavailable;
    for fault in [Fault::After(lost), Fault::Late(lost)] {
        let bench = remote();
        bench.store.fault_always(Verb::Begin, fault);
        for answer in run_to_end(&bench).await {
            let error = answer.unwrap_err();
            assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, false));
        }
        bench.store.up(Verb::Begin);
        bench.store.deliver_late().await;
        for key in [1_usize, 2] {
            bench.until_released(&bench.op().key(key)).await;
        }
        assert_eq!(values(run(&bench, &[1, 2]).await), [(1, false), (2, false)]);
        assert_eq!([1, 2].map(|key| bench.ledger.ran(&format!("{key}"))), [1, 1], "{fault:?}");
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn a_batch_that_is_dropped_before_it_is_answered_is_released() {
    let bench = remote();
    let gate = bench.store.hold_after(Verb::Begin);
    let batch = tokio::spawn({
        let bench = bench.clone();
        async move { run(&bench, &[1, 2]).await }
    });
    gate.arrived(1).await;
    batch.abort();
    assert!(batch.await.unwrap_err().is_cancelled());
    gate.open();
    for key in [1_usize, 2] {
        bench.until_released(&bench.op().key(key)).await;
    }
    assert_eq!(values(run(&bench, &[1, 2]).await), [(1, false), (2, false)]);
}

#[tokio::test]
async fn no_row_of_a_batch_starts_after_its_lease() {
    let bench = remote();
    let gate = bench.store.hold_after(Verb::Begin);
    let batch = tokio::spawn({
        let bench = bench.clone();
        async move {
            let items = [1_usize, 2].map(|key| (key, key));
            let body = |items: Vec<usize>| {
                items.iter().for_each(|item| {
                    bench.ledger.record(format!("{item}"));
                });
                async move { items.into_iter().map(Ok::<_, Error>).collect() }
            };
            // Nothing is renewed but what has to be before the body starts.
            bench.op().max_run(Duration::from_millis(1)).run_batch(items, body).await
        }
    });
    gate.arrived(2).await;
    bench.store.fault_at(Verb::Renew, 2, Fault::Hang);
    bench.clock.advance(LEASE * 6 / 10);
    gate.open();
    bench.store.called(Verb::Renew, 2).await;
    until(|| {
        bench.clock.advance(LEASE * 2);
        batch.is_finished()
    })
    .await;
    let answers = batch.await.unwrap();
    for answer in &answers {
        assert_eq!(answer.as_ref().unwrap_err().kind(), ErrorKind::StoreUnavailable);
    }
    assert_eq!([1, 2].map(|key| bench.ledger.ran(&format!("{key}"))), [0, 0]);
}

/// A repeat never runs a body, so it asks for no right to: what it asked for could arrive late, and
/// block the key.
#[tokio::test]
async fn a_key_that_occurs_twice_and_fails_is_begun_and_armed_once() {
    let bench = remote();
    let body = |items: Vec<u8>| async move {
        items.into_iter().map(|_| Err::<u8, _>(OwnError::new("no"))).collect()
    };
    let items = [1_u8, 1].map(|key| (key, key));
    let answers = bench.op().abandon(Abandon::Block).run_batch(items, body).await;
    assert!(answers.iter().all(Result::is_err));
    let calls = [Verb::Begin, Verb::Arm, Verb::Release].map(|verb| bench.store.calls(verb));
    assert_eq!(calls, [1, 1, 0]);
}

/// One copy of its `begin` was answered by a record that is gone when the other copy arrives.
#[tokio::test]
async fn a_refused_row_is_released_if_a_copy_of_its_begin_arrives_late() {
    let bench = remote();
    let held = bench.hang();
    until(|| bench.runs() == 1).await;
    let refused = bench.store.calls(Verb::Begin);
    bench.store.fault_at(Verb::Begin, refused + 1, Fault::Late(StoreErrorKind::Unavailable));
    let batch = tokio::spawn({
        let other = support::neighbour(&bench);
        async move {
            let body =
                |rows: Vec<u8>| async move { rows.into_iter().map(Ok::<_, Error>).collect() };
            other.op().run_batch([("k", 1)], body).await.pop().unwrap()
        }
    });
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        batch.is_finished()
    })
    .await;
    assert_eq!(batch.await.unwrap().unwrap_err().kind(), ErrorKind::InProgress);
    held.abort();
    until_async(|| async {
        let state = bench.op().get().await.unwrap().map(|record| record.head.state);
        state == Some(State::FailedFree)
    })
    .await;
    assert_eq!(bench.store.deliver_late().await, 1);
    until_async(|| async {
        bench.clock.advance(Duration::from_millis(10));
        let state = bench.op().get().await.unwrap().map(|record| record.head.state);
        state == Some(State::FailedFree) && bench.store.calls(Verb::Release) > 0
    })
    .await;
}
