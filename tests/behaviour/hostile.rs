//! Hostile inputs: absurd durations, macros, hung stores, pauses, destructors.

use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::instance::Drained;
use idempotent_runtime::store::StoreErrorKind;
use idempotent_runtime::testing::{Fault, Verb, scoped};
use idempotent_runtime::{Abandon, Error, ErrorKind, Mode, OnStoreError, current, idempotent};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{LEASE, both, local, neighbour, remote, until};

#[tokio::test]
async fn an_answer_kept_for_ever_is_held_like_any_other() {
    for bench in both() {
        let op = || bench.op().expire(Duration::MAX).wait(Duration::from_secs(1));
        let idempotent_runtime::Begin::Fresh(attempt) = op().begin().await.unwrap() else {
            panic!("not granted")
        };
        let second = op().mode(Mode::Reject).run(async { Ok::<u8, Error>(2) }).await;
        assert_eq!(second.unwrap_err().kind(), ErrorKind::InProgress);
        attempt.complete_for(&1_u8, Duration::MAX).await.unwrap();
        bench.clock.advance(Duration::from_secs(365 * 24 * 3_600));
        assert_eq!(op().run(async { Ok::<u8, Error>(2) }).await.unwrap(), 1);
    }
}

macro_rules! twins {
    ($($name:ident)*) => {$(
        async fn $name(id: u64) -> Result<String, Error> {
            #[idempotent(key = "id", mode = "strong", name = "twins")]
            async fn inner(id: u64) -> Result<String, Error> {
                Ok(format!("{} {id}", stringify!($name)))
            }
            inner(id).await
        }
    )*};
}

twins! { castor pollux }

#[tokio::test]
async fn functions_that_one_macro_wrote_with_one_name_do_not_mix() {
    scoped(local().idem, async {
        assert_eq!(castor(1).await.unwrap(), "castor 1");
        assert_eq!(pollux(1).await.unwrap_err().kind(), ErrorKind::Misconfigured);
    })
    .await;
}

#[tokio::test]
async fn a_hung_body_does_not_hide_what_others_did_after_its_lease() {
    let bench = remote();
    let hung = bench.hang();
    until(|| bench.runs() == 1).await;
    bench.store.down(Verb::Renew);
    let waiter = bench.spawn();
    tokio::task::yield_now().await;
    bench.clock.advance(LEASE);
    let other = neighbour(&bench);
    assert_eq!(other.op().run(async { Ok::<usize, Error>(7) }).await.unwrap(), 7);
    bench.store.up(Verb::Renew);
    until(|| {
        bench.clock.advance(Duration::from_millis(1));
        waiter.is_finished()
    })
    .await;
    // The waiter's patience may have ended first; the next caller must not be held up.
    drop(waiter.await.unwrap());
    assert_eq!(bench.run().await.unwrap(), 7);
    hung.abort();
}

#[tokio::test]
async fn a_grant_that_came_too_late_is_no_licence_to_run_unprotected() {
    let bench = remote();
    let gate = bench.store.hold_after(Verb::Begin);
    let call = tokio::spawn({
        let bench = bench.clone();
        async move {
            let op = bench.op().on_store_error(OnStoreError::Run);
            op.run(async { Ok(bench.ledger.record("k")) }).await
        }
    });
    gate.arrived(1).await;
    bench.store.fault_always(Verb::Renew, Fault::Before(StoreErrorKind::Unavailable));
    bench.clock.advance(LEASE - Duration::from_millis(1));
    gate.open();
    let answer: Result<usize, Error> = call.await.unwrap();
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::StoreUnavailable);
    assert_eq!(bench.runs(), 0);
}

#[tokio::test]
async fn a_begin_without_an_answer_is_released_however_the_next_one_is_answered() {
    let bench = remote();
    bench.store.fault_at(Verb::Begin, 1, Fault::After(StoreErrorKind::Unavailable));
    bench.store.fault_at(Verb::Begin, 2, Fault::Before(StoreErrorKind::Full));
    let call = tokio::spawn({
        let bench = bench.clone();
        async move {
            let op = bench.op().abandon(Abandon::Block);
            op.run(async { Ok::<u8, Error>(1) }).await
        }
    });
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        call.is_finished()
    })
    .await;
    assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::StoreFull);
    bench.store.answered(Verb::Release, 1).await;
    assert_eq!(bench.op().get().await.unwrap(), None);
}

#[tokio::test]
async fn shutdown_waits_for_a_call_whose_begin_is_under_way_and_for_windows() {
    for mode in [Mode::Strong, Mode::Window] {
        let bench = remote();
        let gate = bench.store.hold(Verb::Begin);
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let call = tokio::spawn({
            let bench = bench.clone();
            async move {
                let body = async {
                    wait.await.unwrap();
                    Ok::<_, Error>(bench.ledger.record("k"))
                };
                bench.op().mode(mode).run(body).await
            }
        });
        gate.arrived(1).await;
        let stop = tokio::spawn({
            let idem = bench.idem.clone();
            async move { idem.shutdown(Duration::from_secs(60)).await }
        });
        gate.open();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!stop.is_finished(), "a call of mode {mode} was not waited for");
        go.send(()).unwrap();
        assert_eq!(call.await.unwrap().unwrap(), 1);
        assert_eq!(stop.await.unwrap(), Drained::All);
    }
}

#[tokio::test]
async fn a_body_that_was_paused_learns_that_its_lease_is_over_by_asking() {
    for bench in both() {
        let body = async {
            let attempt = current().unwrap();
            assert!(!attempt.is_lost());
            bench.clock.advance(LEASE * 10);
            Ok::<_, Error>(attempt.is_lost())
        };
        assert!(bench.op().run(body).await.unwrap());
    }
}

/// Counts how many are alive, and takes its time to go.
struct Guard(Arc<AtomicUsize>);

impl Guard {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(alive))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        std::thread::yield_now();
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[idempotent(key = "id", mode = "strong", name = "guarded")]
async fn guarded(alive: Arc<AtomicUsize>, id: u64, hang: bool) -> Result<usize, Error> {
    let guard = Guard::new(&alive);
    if hang {
        std::future::pending::<()>().await;
    }
    let seen = guard.0.load(Ordering::SeqCst);
    Ok(seen + id as usize)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_destructors_of_a_dropped_body_run_before_the_key_is_free() {
    for bench in both() {
        let alive = Arc::new(AtomicUsize::new(0));
        let hung = tokio::spawn(scoped(bench.idem.clone(), guarded(alive.clone(), 0, true)));
        until(|| alive.load(Ordering::SeqCst) == 1).await;
        let next = tokio::spawn(scoped(bench.idem.clone(), guarded(alive.clone(), 0, false)));
        tokio::task::yield_now().await;
        hung.abort();
        assert_eq!(next.await.unwrap().unwrap(), 1, "two bodies were alive at once");
    }
}

#[tokio::test]
async fn a_store_that_hangs_holds_nobody_for_longer_than_a_lease() {
    let bench = remote();
    bench.store.fault_at(Verb::Begin, 1, Fault::Hang);
    let call = bench.spawn();
    bench.store.called(Verb::Begin, 1).await;
    until(|| {
        bench.clock.advance(LEASE);
        call.is_finished()
    })
    .await;
    assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::StoreUnavailable);
    assert_eq!(bench.runs(), 0);

    let bench = remote();
    bench.store.fault_at(Verb::Complete, 1, Fault::HangAfter);
    let call = bench.spawn();
    bench.store.called(Verb::Complete, 1).await;
    until(|| {
        bench.clock.advance(LEASE);
        call.is_finished()
    })
    .await;
    assert_eq!(call.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn an_absent_or_empty_scope_is_refused_wherever_it_comes_from() {
    use idempotent_runtime::key::Encoded;
    let bench = local();
    for scope in [Encoded::of_optional::<u8>(&None), Encoded::ambient(), Encoded::of("")] {
        let mut request = Ambient::new().token("t");
        request.scope = Some(scope);
        let op = bench.idem.operation("o");
        let call = ambient::scope(request, op.run(async { Ok::<u8, Error>(1) }));
        assert_eq!(call.await.unwrap_err().kind(), ErrorKind::MissingKey);
    }
}

#[tokio::test]
async fn a_task_that_outlives_its_attempt_may_use_the_key_again() {
    let bench = local();
    let mut attempt = None;
    let body = async {
        attempt = current();
        Ok::<_, Error>(1)
    };
    bench.op().run(body).await.unwrap();
    bench.op().forget(false).await.unwrap();
    let again = attempt.unwrap().enter(bench.op().run(async { Ok::<_, Error>(2) }));
    assert_eq!(again.await.unwrap(), 2);
}

#[tokio::test]
async fn many_slow_renewals_go_out_together() {
    let bench = remote();
    let calls: Vec<_> = (0..500_u32)
        .map(|key| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let body = async {
                    bench.ledger.record("k");
                    std::future::pending::<Result<u8, Error>>().await
                };
                bench.idem.operation("many").key(key).run(body).await
            })
        })
        .collect();
    until(|| bench.runs() == 500).await;
    let gate = bench.store.hold(Verb::Renew);
    bench.clock.advance(LEASE / 3);
    gate.arrived(500).await;
    gate.open();
    calls.iter().for_each(|call| call.abort());
}

#[tokio::test]
async fn a_begin_that_hangs_does_not_stall_the_next_payload_for_longer_than_a_lease() {
    use idempotent_runtime::Fingerprint;
    let bench = remote();
    bench.store.fault_at(Verb::Begin, 1, Fault::Hang);
    let call = |payload: &'static str| {
        let bench = bench.clone();
        tokio::spawn(async move {
            let op = bench.op().fingerprint(Fingerprint::of(payload));
            op.run(async { Ok::<_, Error>(payload.to_owned()) }).await
        })
    };
    let leader = call("one");
    bench.store.called(Verb::Begin, 1).await;
    let follower = tokio::spawn({
        let bench = bench.clone();
        async move {
            let op = bench.op().fingerprint(Fingerprint::of("two")).wait(LEASE * 4);
            op.run(async { Ok::<_, Error>("two".to_owned()) }).await
        }
    });
    tokio::task::yield_now().await;
    leader.abort();
    let _ = leader.await;
    until(|| {
        bench.clock.advance(LEASE / 10);
        follower.is_finished()
    })
    .await;
    assert_eq!(follower.await.unwrap().unwrap(), "two");
}

#[tokio::test]
async fn a_renewal_before_the_start_that_hangs_refuses_the_call_within_a_lease() {
    let bench = remote();
    let gate = bench.store.hold_after(Verb::Begin);
    let call = bench.spawn();
    gate.arrived(1).await;
    bench.store.fault_always(Verb::Renew, Fault::Hang);
    bench.clock.advance(LEASE * 6 / 10);
    gate.open();
    until(|| {
        bench.clock.advance(LEASE / 100);
        call.is_finished()
    })
    .await;
    assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::StoreUnavailable);
}

#[tokio::test]
async fn an_answer_that_a_store_swallows_is_sent_again() {
    for fault in [Fault::Hang, Fault::HangAfter] {
        let bench = remote();
        bench.store.fault_always(Verb::Complete, fault);
        let call = bench.spawn();
        bench.store.called(Verb::Complete, 1).await;
        until(|| {
            bench.clock.advance(LEASE / 10);
            call.is_finished()
        })
        .await;
        assert_eq!(call.await.unwrap().unwrap(), 1);
        bench.store.up(Verb::Complete);
        until(|| {
            bench.clock.advance(LEASE / 10);
            bench.idem.in_flight() == 0
        })
        .await;
        assert!(bench.store.calls(Verb::Complete) > 1, "{fault:?}");
    }
}
