//! Keys under `abandon = "block"` block only once their body is about to start.

use idempotent_runtime::store::{State, StoreErrorKind};
use idempotent_runtime::testing::{Fault, Verb};
use idempotent_runtime::{Abandon, Begin, Error, ErrorKind, Mode};
use std::time::Duration;
use support::{Bench, LEASE, both, neighbour, remote, until, until_async, while_time_passes};

const LOST: StoreErrorKind = StoreErrorKind::Unavailable;

async fn run(bench: &Bench) -> Result<usize, Error> {
    bench.op().abandon(Abandon::Block).run(async { Ok(bench.ledger.record("k")) }).await
}

/// As [`run`], in a task of its own, with a clock that goes on.
async fn run_to_end(bench: &Bench, tick: Duration) -> Result<usize, Error> {
    let call = spawn(bench);
    until(|| {
        bench.clock.advance(tick);
        call.is_finished()
    })
    .await;
    call.await.unwrap()
}

/// Waits for a call. Its lease is renewed meanwhile, which must not keep the caller waiting.
async fn ends_within_two_leases<T>(bench: &Bench, call: &tokio::task::JoinHandle<T>) {
    let mut ticks = 0;
    until(|| {
        bench.clock.advance(LEASE / 100);
        ticks += 1;
        assert!(ticks < 200, "the call waits for longer than its lease");
        call.is_finished()
    })
    .await;
}

fn spawn(bench: &Bench) -> tokio::task::JoinHandle<Result<usize, Error>> {
    let bench = bench.clone();
    tokio::spawn(async move { run(&bench).await })
}

async fn record_is_gone(bench: &Bench) {
    until_async(|| async {
        bench.clock.advance(Duration::from_millis(10));
        bench.op().get().await.unwrap().is_none()
    })
    .await;
}

async fn policy(bench: &Bench) -> Option<Abandon> {
    Some(bench.op().get().await.unwrap()?.head.attempt.claim.abandon())
}

#[tokio::test]
async fn a_key_whose_body_never_started_does_not_block() {
    let bench = remote();
    // Refused, and all three copies are executed by a server that goes on much later.
    bench.store.fault_always(Verb::Begin, Fault::Late(LOST));
    bench.store.down(Verb::Release);
    let refused = run_to_end(&bench, Duration::from_millis(10)).await.unwrap_err();
    assert_eq!((refused.kind(), refused.body_ran()), (ErrorKind::StoreUnavailable, false));
    bench.store.up(Verb::Begin);
    assert_eq!(bench.store.deliver_late().await, 3);
    assert_eq!(policy(&bench).await, Some(Abandon::Retry));
    bench.clock.advance(LEASE);
    assert_eq!(run(&bench).await.unwrap(), 1);
}

#[tokio::test]
async fn the_body_starts_only_after_the_arming_is_acknowledged() {
    let bench = remote();
    let gate = bench.store.hold_after(Verb::Arm);
    let call = spawn(&bench);
    gate.arrived(1).await;
    assert_eq!(policy(&bench).await, Some(Abandon::Block));
    assert_eq!(bench.runs(), 0);
    gate.open();
    assert_eq!(call.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn an_arming_whose_reply_was_lost_is_sent_again() {
    for fault in [Fault::Before(LOST), Fault::After(LOST), Fault::NotSent] {
        let bench = remote();
        bench.store.fault_at(Verb::Arm, 1, fault);
        let ran = run_to_end(&bench, Duration::from_millis(10)).await;
        assert_eq!(ran.unwrap(), 1, "{fault:?}");
        // The second finds the key armed, and renews it.
        let found = usize::from(matches!(fault, Fault::After(_)));
        assert_eq!(bench.store.calls(Verb::Arm), 2 + found, "{fault:?}");
        assert_eq!(run(&bench).await.unwrap(), 1, "{fault:?}: replayed");
    }
}

#[tokio::test]
async fn an_arming_that_is_never_answered_refuses_the_call_and_releases_the_key() {
    for fault in [Fault::Before(LOST), Fault::After(LOST), Fault::Hang, Fault::HangAfter] {
        let bench = remote();
        bench.store.fault_always(Verb::Arm, fault);
        let call = spawn(&bench);
        ends_within_two_leases(&bench, &call).await;
        let refused = call.await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::StoreUnavailable, "{fault:?}");
        assert!(!refused.body_ran() && bench.runs() == 0, "{fault:?}");
        record_is_gone(&bench).await;
        bench.store.up(Verb::Arm);
        assert_eq!(run(&bench).await.unwrap(), 1, "{fault:?}");
    }
}

/// Both were delayed: the `begin` that is executed after its release, and then the `arm`.
#[tokio::test]
async fn a_key_that_is_armed_late_is_released_all_the_same() {
    let bench = remote();
    bench.store.fault_at(Verb::Begin, 1, Fault::Late(LOST));
    bench.store.fault_always(Verb::Arm, Fault::Late(LOST));
    run_to_end(&bench, LEASE / 100).await.unwrap_err();
    record_is_gone(&bench).await;
    let gate = bench.store.hold(Verb::Release);
    // One waits there, so that no earlier one is on its way.
    while_time_passes(|by| bench.clock.advance(by), gate.arrived(1)).await;
    assert!(bench.store.deliver_late().await >= 2);
    assert_eq!(policy(&bench).await, Some(Abandon::Block));
    // The releases go on for a lease after the call was refused.
    gate.open();
    record_is_gone(&bench).await;
    assert_eq!(bench.runs(), 0);
}

#[tokio::test]
async fn a_call_that_is_dropped_while_its_key_is_armed_releases_it() {
    let bench = remote();
    let gate = bench.store.hold_after(Verb::Arm);
    let call = spawn(&bench);
    gate.arrived(1).await;
    call.abort();
    gate.open();
    record_is_gone(&bench).await;
    assert_eq!(bench.runs(), 0);
    assert_eq!(run(&bench).await.unwrap(), 1);
}

#[tokio::test]
async fn a_key_that_was_lost_before_it_was_armed_does_not_start_its_body() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Arm);
    let call = spawn(&bench);
    gate.arrived(1).await;
    bench.op().forget(true).await.unwrap();
    gate.open();
    let refused = call.await.unwrap().unwrap_err();
    assert_eq!((refused.kind(), refused.body_ran()), (ErrorKind::StoreUnavailable, false));
    assert_eq!(bench.runs(), 0);
}

#[tokio::test]
async fn a_store_that_refuses_to_arm_refuses_the_call() {
    let refusals = [
        (StoreErrorKind::Full, ErrorKind::StoreFull),
        (StoreErrorKind::NotReplicated, ErrorKind::NotReplicated),
    ];
    for (fault, kind) in refusals {
        let bench = remote();
        bench.store.fault_always(Verb::Arm, Fault::After(fault));
        let refused = run(&bench).await.unwrap_err();
        assert_eq!((refused.kind(), refused.body_ran()), (kind, false));
        record_is_gone(&bench).await;
    }
}

#[tokio::test]
async fn an_arming_counts_as_a_renewal() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Arm);
    let hung = tokio::spawn({
        let bench = bench.clone();
        async move {
            let body = async {
                bench.ledger.record("k");
                std::future::pending::<Result<usize, Error>>().await
            };
            bench.op().abandon(Abandon::Block).run(body).await
        }
    });
    gate.arrived(1).await;
    bench.store.down(Verb::Renew);
    bench.clock.advance(LEASE / 4);
    gate.open();
    until(|| bench.runs() == 1).await;
    let record = bench.op().get().await.unwrap().unwrap();
    assert_eq!(record.head.lease_left(record.ttl), LEASE);
    hung.abort();
}

#[tokio::test]
async fn only_keys_that_block_are_armed() {
    let bench = remote();
    assert_eq!(bench.run().await.unwrap(), 1);
    let window = bench.op().key("window").mode(Mode::Window).abandon(Abandon::Block);
    window.run(async { Ok::<_, Error>(1) }).await.unwrap();
    assert_eq!(bench.store.calls(Verb::Arm), 0);
    let block = bench.op().key("block").abandon(Abandon::Block);
    block.run(async { Ok::<_, Error>(1) }).await.unwrap();
    assert_eq!(bench.store.calls(Verb::Arm), 1);
}

#[tokio::test]
async fn an_attempt_by_hand_is_armed_when_it_is_handed_out() {
    for bench in both() {
        let begun = bench.op().abandon(Abandon::Block).begin().await.unwrap();
        let Begin::Fresh(attempt) = begun else { panic!("{begun:?}") };
        assert_eq!(policy(&bench).await, Some(Abandon::Block));
        drop(attempt);
        until_async(|| async {
            let record = bench.op().get().await.unwrap();
            record.is_some_and(|record| record.head.state == State::Abandoned)
        })
        .await;
    }
}

#[tokio::test]
async fn a_batch_arms_its_keys_and_what_is_not_answered_again() {
    let bench = remote();
    bench.store.fault_at(Verb::Arm, 2, Fault::After(LOST));
    let body = |items: Vec<usize>| async {
        bench.ledger.record("batch");
        items.into_iter().map(Ok::<_, Error>).collect()
    };
    let items = [(1, 1), (2, 2), (3, 3)];
    let answers = bench.op().abandon(Abandon::Block).run_batch(items, body).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    // The second is found armed when it is sent again, and renewed.
    assert_eq!((bench.store.calls(Verb::Arm), bench.ledger.ran("batch")), (5, 1));
}

#[tokio::test]
async fn a_batch_whose_keys_are_never_armed_is_refused_within_a_lease() {
    for fault in [Fault::Before(LOST), Fault::Hang] {
        let bench = remote();
        bench.store.fault_always(Verb::Arm, fault);
        let call = tokio::spawn({
            let bench = bench.clone();
            async move {
                let body = |items: Vec<usize>| async {
                    bench.ledger.record("batch");
                    items.into_iter().map(Ok::<_, Error>).collect()
                };
                let items = (0..10).map(|number| (number, number));
                bench.op().abandon(Abandon::Block).run_batch(items, body).await
            }
        });
        ends_within_two_leases(&bench, &call).await;
        for answer in call.await.unwrap() {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::StoreUnavailable, "{fault:?}");
        }
        assert_eq!(bench.ledger.ran("batch"), 0, "{fault:?}");
    }
}

#[tokio::test]
async fn a_batch_that_is_dropped_while_it_arms_releases_its_keys() {
    let bench = remote();
    let gate = bench.store.hold_after(Verb::Arm);
    let call = tokio::spawn({
        let bench = bench.clone();
        async move {
            let body = |items: Vec<usize>| async { items.into_iter().map(Ok).collect() };
            let answers: Vec<Result<_, Error>> =
                bench.op().abandon(Abandon::Block).run_batch([(1, 1), (2, 2)], body).await;
            answers.len()
        }
    });
    gate.arrived(2).await;
    call.abort();
    gate.open();
    for key in [1, 2] {
        until_async(|| async {
            bench.clock.advance(Duration::from_millis(10));
            bench.op().key(key).get().await.unwrap().is_none()
        })
        .await;
    }
}

#[tokio::test]
async fn a_release_of_a_key_that_may_be_armed_goes_on_for_as_long_as_the_key_would_block() {
    let bench = remote();
    let expire = Duration::from_secs(10);
    bench.store.fault_always(Verb::Arm, Fault::After(LOST));
    bench.store.down(Verb::Release);
    let call = tokio::spawn({
        let bench = bench.clone();
        async move {
            let op = bench.op().abandon(Abandon::Block).expire(expire);
            op.run(async { Ok::<_, Error>(bench.ledger.record("k")) }).await
        }
    });
    bench.store.called(Verb::Arm, 1).await;
    until(|| {
        bench.clock.advance(LEASE / 100);
        call.is_finished()
    })
    .await;
    assert!(call.await.unwrap().is_err());
    // An outage that is longer than the record would live if it were not armed.
    for _ in 0..50 {
        let before = bench.store.calls(Verb::Release);
        until(|| {
            bench.clock.advance(LEASE / 10);
            bench.store.calls(Verb::Release) > before
        })
        .await;
    }
    bench.store.all_up();
    until_async(|| async {
        bench.clock.advance(LEASE / 10);
        bench.op().get().await.unwrap().is_none()
    })
    .await;
}

/// A process that cannot reach the store is, to all others, one that died before its body's first
/// poll. It is for as long as they are apart, and not for as long as the key would block.
#[tokio::test]
async fn an_arming_that_was_not_answered_is_unknown_to_others_until_its_release_arrives() {
    let bench = remote();
    let other = neighbour(&bench);
    let ask = async || other.op().abandon(Abandon::Block).mode(Mode::Reject).begin().await.unwrap();
    bench.store.fault_always(Verb::Arm, Fault::After(LOST));
    bench.store.fault_always(Verb::Renew, Fault::Before(LOST));
    bench.store.down(Verb::Release);
    let refused = run_to_end(&bench, LEASE / 100).await.unwrap_err();
    assert_eq!((refused.kind(), refused.body_ran()), (ErrorKind::StoreUnavailable, false));
    assert_eq!(policy(&bench).await, Some(Abandon::Block));

    bench.clock.advance(LEASE);
    let unknown = ask().await;
    assert!(matches!(unknown, Begin::Indeterminate { attempt: 1 }), "{unknown:?}");
    assert_eq!(bench.runs(), 0);

    bench.store.all_up();
    record_is_gone(&bench).await;
    let free = ask().await;
    assert!(matches!(free, Begin::Fresh(_)), "{free:?}");
}

/// The lease is renewed while it is armed, so its end would never come.
#[tokio::test]
async fn an_arming_that_is_never_answered_is_given_up_although_the_lease_is_renewed() {
    let bench = remote();
    bench.store.down(Verb::Arm);
    let keys = [1_usize, 2, 3];
    let batch = tokio::spawn({
        let bench = bench.clone();
        async move {
            let body =
                |items: Vec<usize>| async { items.into_iter().map(Ok::<_, Error>).collect() };
            let operation = bench.op().abandon(Abandon::Block);
            operation.run_batch(keys.map(|key| (key, key)), body).await
        }
    });
    let call = spawn(&bench);
    let mut waited = Duration::ZERO;
    until(|| {
        bench.clock.advance(LEASE / 100);
        waited += LEASE / 100;
        call.is_finished() && batch.is_finished()
    })
    .await;
    assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::StoreUnavailable);
    assert!(batch.await.unwrap().iter().all(Result::is_err));
    assert!(bench.store.calls(Verb::Renew) > 0);
    // A lease, and what the test's own steps add to it; a body may run for far longer.
    assert!(waited < LEASE * 10, "it waited {waited:?}");
}
