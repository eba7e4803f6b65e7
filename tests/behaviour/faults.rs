//! Answers to callers while the store fails, verb by verb.

use idempotent_runtime::protocol::{Binding, Forgotten, StoreExt as _};
use idempotent_runtime::store::{State, StoreErrorKind};
use idempotent_runtime::testing::{Fault, Verb};
use idempotent_runtime::{Abandon, Error, ErrorKind, OnStoreError};
use std::time::Duration;
use support::{Bench, EXPIRE, LEASE, remote, until, until_async};

/// Calls, and moves the clock whenever the call pauses.
async fn run_to_end(bench: &Bench) -> Result<usize, Error> {
    let call = bench.spawn();
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        call.is_finished()
    })
    .await;
    call.await.unwrap()
}

#[tokio::test]
async fn without_a_positive_begin_the_body_does_not_run() {
    let refusals = [
        (StoreErrorKind::Unavailable, ErrorKind::StoreUnavailable),
        (StoreErrorKind::Full, ErrorKind::StoreFull),
        (StoreErrorKind::NotReplicated, ErrorKind::NotReplicated),
        (StoreErrorKind::Undecodable, ErrorKind::Undecodable),
        (StoreErrorKind::Contended, ErrorKind::InProgress),
        (StoreErrorKind::Misconfigured, ErrorKind::Misconfigured),
    ];
    for (fault, kind) in refusals {
        let bench = remote();
        bench.store.fault_always(Verb::Begin, Fault::Before(fault));
        let error = run_to_end(&bench).await.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(!error.body_ran());
        assert_eq!(bench.runs(), 0);
        bench.store.up(Verb::Begin);
        assert_eq!(run_to_end(&bench).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_begin_whose_reply_was_lost_is_recognised_as_ours() {
    let bench = remote();
    bench.store.fault_at(Verb::Begin, 1, Fault::After(StoreErrorKind::Unavailable));
    assert_eq!(run_to_end(&bench).await.unwrap(), 1);
    assert_eq!(bench.store.calls(Verb::Begin), 2);
    assert_eq!(bench.runs(), 1);
}

#[tokio::test]
async fn a_begin_that_arrives_after_its_release_was_answered_is_released_again() {
    let bench = remote();
    bench.store.fault_always(Verb::Begin, Fault::Late(StoreErrorKind::Unavailable));
    let error = run_to_end(&bench).await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, false));
    bench.store.answered(Verb::Release, 1).await;
    bench.store.up(Verb::Begin);
    assert!(bench.store.deliver_late().await > 0);
    let record = bench.op().get().await.unwrap().unwrap();
    assert_eq!(record.head.state, State::Processing, "nobody knows of it");
    bench.until_released(&bench.op()).await;
    assert_eq!(run_to_end(&bench).await.unwrap(), 1);
    assert_eq!(bench.runs(), 1);
    bench.at_rest().await;
}

#[tokio::test]
async fn losing_a_race_in_the_store_is_tried_again() {
    let bench = remote();
    for call in 1..4 {
        bench.store.fault_at(Verb::Begin, call, Fault::Before(StoreErrorKind::Contended));
    }
    assert_eq!(run_to_end(&bench).await.unwrap(), 1);
}

#[tokio::test]
async fn a_function_may_choose_to_run_without_a_store() {
    let bench = remote();
    bench.store.all_down();
    let call = tokio::spawn({
        let bench = bench.clone();
        async move {
            let op = bench.op().on_store_error(OnStoreError::Run);
            op.run(async { Ok::<_, Error>(bench.ledger.record("k")) }).await
        }
    });
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        call.is_finished()
    })
    .await;
    assert_eq!(call.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn a_body_that_may_run_without_a_store_does_so_unless_the_key_may_be_held() {
    for (fault, runs) in [
        (StoreErrorKind::Unavailable, 1),
        (StoreErrorKind::Full, 1),
        (StoreErrorKind::NotReplicated, 1),
        (StoreErrorKind::Misconfigured, 1),
        (StoreErrorKind::Undecodable, 0),
        (StoreErrorKind::Contended, 0),
    ] {
        let bench = remote();
        bench.store.fault_always(Verb::Begin, Fault::Before(fault));
        let call = tokio::spawn({
            let bench = bench.clone();
            async move {
                let op = bench.op().on_store_error(OnStoreError::Run);
                op.run(async { Ok::<_, Error>(bench.ledger.record("k")) }).await
            }
        });
        until(|| {
            bench.clock.advance(Duration::from_millis(10));
            call.is_finished()
        })
        .await;
        assert_eq!(call.await.unwrap().is_ok(), runs == 1, "{fault:?}");
        assert_eq!(bench.runs(), runs, "{fault:?}");
    }
}

#[tokio::test]
async fn a_value_that_cannot_be_recorded_reaches_its_caller_and_is_recorded_later() {
    for fault in
        [Fault::Before(StoreErrorKind::Unavailable), Fault::After(StoreErrorKind::Unavailable)]
    {
        let bench = remote();
        bench.store.fault_at(Verb::Complete, 1, fault);
        assert_eq!(run_to_end(&bench).await.unwrap(), 1);
        until_async(|| async {
            bench.clock.advance(Duration::from_millis(10));
            bench.op().get().await.unwrap().unwrap().head.state == State::Succeeded
        })
        .await;
        assert_eq!(run_to_end(&bench).await.unwrap(), 1);
        assert_eq!(bench.runs(), 1);
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn recording_is_tried_for_as_long_as_the_lease_can_be_held() {
    let bench = remote();
    bench.store.down(Verb::Complete);
    assert_eq!(run_to_end(&bench).await.unwrap(), 1);
    assert_eq!(bench.idem.in_flight(), 1);
    // Leases are still renewed, so that nobody takes over while it is tried.
    for _ in 0..20 {
        bench.clock.advance(LEASE / 3);
        until_async(|| async {
            let record = bench.op().get().await.unwrap().unwrap();
            record.head.lease_left(record.ttl) == LEASE
        })
        .await;
    }
    bench.store.up(Verb::Complete);
    bench.clock.advance(Duration::from_secs(3));
    bench.at_rest().await;
    assert_eq!(bench.run().await.unwrap(), 1);
}

#[tokio::test]
async fn recording_goes_on_after_the_lease_was_lost() {
    for abandon in [Abandon::Retry, Abandon::Block] {
        let bench = remote();
        bench.store.down(Verb::Complete);
        bench.store.down(Verb::Renew);
        assert_eq!(run_under(&bench, abandon).await.unwrap(), 1);
        for _ in 0..10 {
            bench.clock.advance(LEASE);
            until_tried_again(&bench, Verb::Complete).await;
        }
        bench.store.all_up();
        until(|| {
            bench.clock.advance(Duration::from_secs(1));
            bench.idem.in_flight() == 0
        })
        .await;
        assert_eq!(run_under(&bench, abandon).await.unwrap(), 1, "{abandon:?}");
        assert_eq!(bench.runs(), 1, "{abandon:?}");
    }
}

/// Unless its end is recorded, the key blocks although its body returned an error.
#[tokio::test]
async fn an_error_of_a_key_that_blocks_is_recorded_after_the_lease_was_lost() {
    let bench = remote();
    bench.store.down(Verb::Fail);
    bench.store.down(Verb::Renew);
    let failed = bench.op().abandon(Abandon::Block);
    let failed = failed.run(async { Err::<u8, _>(support::OwnError::new("mine")) }).await;
    assert_eq!(failed.unwrap_err().0, "mine");
    for _ in 0..5 {
        bench.clock.advance(LEASE);
        until_tried_again(&bench, Verb::Fail).await;
    }
    bench.store.all_up();
    until(|| {
        bench.clock.advance(Duration::from_secs(1));
        bench.idem.in_flight() == 0
    })
    .await;
    assert_eq!(run_under(&bench, Abandon::Block).await.unwrap(), 1);
}

#[tokio::test]
async fn recording_is_given_up_when_the_record_has_expired() {
    for (abandon, life) in [(Abandon::Retry, EXPIRE), (Abandon::Block, BLOCK_RETENTION)] {
        let bench = remote();
        bench.store.down(Verb::Complete);
        bench.store.down(Verb::Renew);
        assert_eq!(run_under(&bench, abandon).await.unwrap(), 1);
        bench.clock.advance(life);
        until_tried_again(&bench, Verb::Complete).await;
        assert_eq!(bench.idem.in_flight(), 1, "{abandon:?}: it still knows the answer");
        bench.clock.advance(LEASE + Duration::from_secs(10));
        until(|| {
            bench.clock.advance(Duration::from_secs(1));
            bench.idem.in_flight() == 0
        })
        .await;
        bench.store.all_up();
        assert_eq!(run_under(&bench, abandon).await.unwrap(), 2, "{abandon:?}: the key is free");
    }
}

/// An old answer must not come back after another attempt succeeded and its answer was forgotten.
#[tokio::test]
async fn an_answer_whose_lease_was_lost_is_not_written_where_the_record_is_gone() {
    let bench = remote();
    bench.store.down(Verb::Complete);
    bench.store.down(Verb::Renew);
    assert_eq!(run_to_end(&bench).await.unwrap(), 1);
    bench.clock.advance(LEASE);
    let other = support::neighbour(&bench);
    bench.store.up(Verb::Complete);
    let gate = bench.store.hold(Verb::Complete);
    until_tried_again(&bench, Verb::Complete).await;
    gate.arrived(1).await;
    // What is on its way is sent on behalf of a lost lease. Meanwhile the key is another's, and
    // then nobody's.
    let inner = other.op();
    assert_eq!(inner.forget(true).await.unwrap(), Forgotten::Freed);
    bench.clock.advance(EXPIRE + LEASE);
    assert_eq!(inner.get().await.unwrap(), None);
    gate.open();
    until(|| {
        bench.clock.advance(Duration::from_millis(100));
        bench.idem.in_flight() == 0
    })
    .await;
    assert_eq!(inner.get().await.unwrap(), None, "the old answer is back");
}

const BLOCK_RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

async fn run_under(bench: &Bench, abandon: Abandon) -> Result<usize, Error> {
    bench.op().abandon(abandon).run(async { Ok(bench.ledger.record("k")) }).await
}

/// Waits until the background tries `verb` once more.
async fn until_tried_again(bench: &Bench, verb: Verb) {
    let before = bench.store.calls(verb);
    until(|| {
        bench.clock.advance(Duration::from_millis(100));
        bench.store.calls(verb) > before
    })
    .await;
}

#[tokio::test]
async fn a_failure_that_cannot_be_recorded_reaches_its_caller() {
    let bench = remote();
    bench.store.fault_at(Verb::Fail, 1, Fault::Before(StoreErrorKind::Unavailable));
    let failed = bench.op().run(async { Err::<u8, _>(support::OwnError::new("mine")) }).await;
    assert_eq!(failed.unwrap_err().0, "mine");
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        bench.idem.in_flight() == 0
    })
    .await;
    assert_eq!(bench.run().await.unwrap(), 1);
}

#[tokio::test]
async fn a_record_that_vanished_is_written_again() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Complete);
    let call = bench.spawn();
    gate.arrived(1).await;
    // As after a flush: the record is gone although its attempt holds the key.
    let (key, record) = (bench.op().record_key().unwrap(), bench.op().get().await.unwrap());
    let attempt = record.unwrap().head.attempt;
    bench.store.release(&key, &attempt, EXPIRE, Binding::Lifted).await.unwrap();
    assert_eq!(bench.op().get().await.unwrap(), None);
    gate.open();
    assert_eq!(call.await.unwrap().unwrap(), 1);
    assert!(bench.op().get().await.unwrap().is_some());
    assert_eq!(bench.run().await.unwrap(), 1);
    assert_eq!(bench.runs(), 1);
}

#[tokio::test]
async fn a_late_message_of_a_superseded_attempt_changes_nothing() {
    let bench = remote();
    bench.store.fault_at(Verb::Fail, 1, Fault::Late(StoreErrorKind::Unavailable));
    let failed = bench.op().run(async { Err::<u8, _>(support::OwnError::new("mine")) }).await;
    assert!(failed.is_err());
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        bench.idem.in_flight() == 0
    })
    .await;
    assert_eq!(bench.run().await.unwrap(), 1);
    let before = bench.op().get().await.unwrap();
    bench.store.deliver_late().await;
    assert_eq!(bench.op().get().await.unwrap(), before);
    assert_eq!(bench.run().await.unwrap(), 1);
}

#[tokio::test]
async fn an_abandoned_body_is_recorded_even_if_the_store_is_away_for_a_while() {
    let bench = remote();
    bench.store.fault_at(Verb::Abandon, 1, Fault::Before(StoreErrorKind::Unavailable));
    let hung = bench.hang();
    until(|| bench.runs() == 1).await;
    hung.abort();
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        bench.idem.in_flight() == 0
    })
    .await;
    assert_eq!(bench.run().await.unwrap(), 2);
}

#[tokio::test]
async fn every_verb_of_every_call_may_fail_once_before_or_after_its_effect() {
    for verb in [Verb::Begin, Verb::Complete, Verb::Watch, Verb::Get] {
        for fault in [Fault::Before, Fault::After] {
            let bench = remote();
            bench.store.fault_next(verb, fault(StoreErrorKind::Unavailable));
            assert_eq!(run_to_end(&bench).await.unwrap(), 1, "{verb:?}");
            assert_eq!(run_to_end(&bench).await.unwrap(), 1, "{verb:?}");
            assert_eq!(bench.runs(), 1, "{verb:?}");
        }
    }
}
