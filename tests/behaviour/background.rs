//! Background work after the callers have gone is bounded, and limited to what can matter.

use idempotent_runtime::instance::Drained;
use idempotent_runtime::store::StoreErrorKind;
use idempotent_runtime::testing::{Fault, Verb};
use idempotent_runtime::{Error, ErrorKind};
use std::time::Duration;
use support::{Bench, LEASE, remote, until, until_async};

const LOST: StoreErrorKind = StoreErrorKind::Unavailable;

async fn refused(bench: &Bench) -> Error {
    let call = bench.spawn();
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        call.is_finished()
    })
    .await;
    call.await.unwrap().unwrap_err()
}

#[tokio::test]
async fn a_call_that_was_never_sent_leaves_nothing_to_release() {
    let bench = remote();
    bench.store.fault_always(Verb::Begin, Fault::NotSent);
    for _ in 0..20 {
        assert_eq!(refused(&bench).await.kind(), ErrorKind::StoreUnavailable);
    }
    let items = (0..20).map(|key| (key, key));
    let body = |items: Vec<usize>| async { items.into_iter().map(Ok::<_, Error>).collect() };
    let batch = tokio::spawn({
        let bench = bench.clone();
        async move { bench.op().run_batch(items, body).await }
    });
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        batch.is_finished()
    })
    .await;
    assert!(batch.await.unwrap().iter().all(Result::is_err));
    assert_eq!(bench.idem.shutdown(Duration::from_secs(1)).await, Drained::All);
    assert_eq!(bench.store.calls(Verb::Release), 0);
}

#[tokio::test]
async fn one_copy_that_may_have_arrived_is_released() {
    let bench = remote();
    bench.store.fault_always(Verb::Begin, Fault::NotSent);
    bench.store.fault_at(Verb::Begin, 2, Fault::Late(LOST));
    refused(&bench).await;
    bench.store.called(Verb::Release, 1).await;
    assert_eq!(bench.store.deliver_late().await, 1);
    until_async(|| async {
        bench.clock.advance(Duration::from_millis(10));
        bench.op().get().await.unwrap().is_none()
    })
    .await;
}

/// A server that stalls for longer than a lease executes what it was sent before when it goes on.
#[tokio::test]
async fn releases_go_on_until_one_is_acknowledged_and_a_lease_has_passed() {
    let bench = remote();
    bench.store.fault_always(Verb::Begin, Fault::Late(LOST));
    bench.store.down(Verb::Release);
    refused(&bench).await;
    bench.store.up(Verb::Begin);
    for _ in 0..20 {
        let before = bench.store.calls(Verb::Release);
        until(|| {
            bench.clock.advance(LEASE / 10);
            bench.store.calls(Verb::Release) > before
        })
        .await;
    }
    bench.store.up(Verb::Release);
    assert_eq!(bench.store.deliver_late().await, 3);
    until_async(|| async {
        bench.clock.advance(Duration::from_millis(100));
        bench.op().get().await.unwrap().is_none()
    })
    .await;
    // Acknowledged, and a lease has passed: they end.
    let settled = bench.store.calls(Verb::Release);
    bench.clock.advance(LEASE);
    assert_eq!(bench.run().await.unwrap(), 1);
    assert_eq!(bench.store.calls(Verb::Release), settled);
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_releases_that_nobody_answers() {
    let bench = remote();
    bench.store.fault_always(Verb::Begin, Fault::After(LOST));
    bench.store.fault_always(Verb::Release, Fault::Hang);
    for _ in 0..5 {
        refused(&bench).await;
    }
    let started = bench.clock.clock();
    let _ = started;
    let stop = tokio::spawn({
        let idem = bench.idem.clone();
        async move { idem.shutdown(LEASE * 10).await }
    });
    let mut waited = Duration::ZERO;
    until(|| {
        bench.clock.advance(LEASE / 100);
        waited += LEASE / 100;
        stop.is_finished()
    })
    .await;
    assert_eq!(stop.await.unwrap(), Drained::All);
    assert!(waited < LEASE, "it waited {waited:?}");
}

#[tokio::test]
async fn a_shutdown_waits_for_answers() {
    let bench = remote();
    bench.store.down(Verb::Complete);
    assert_eq!(bench.run().await.unwrap(), 1);
    let stop = tokio::spawn({
        let idem = bench.idem.clone();
        async move { idem.shutdown(LEASE * 10).await }
    });
    for _ in 0..5 {
        let before = bench.store.calls(Verb::Complete);
        until(|| {
            bench.clock.advance(Duration::from_millis(100));
            bench.store.calls(Verb::Complete) > before
        })
        .await;
        assert!(!stop.is_finished());
    }
    bench.store.up(Verb::Complete);
    until(|| {
        bench.clock.advance(Duration::from_millis(100));
        stop.is_finished()
    })
    .await;
    assert_eq!(stop.await.unwrap(), Drained::All);
}
