//! A caller that goes away leaves nothing behind, at any await point.

use idempotent_runtime::store::State;
use idempotent_runtime::testing::Verb;
use idempotent_runtime::{Abandon, Error, ErrorKind, Mode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{Bench, both, poll_at_most, remote, until, until_async};

/// A body with a few awaits of its own.
async fn body(bench: &Bench, ended: &AtomicBool) -> Result<usize, Error> {
    let run = bench.ledger.record("k");
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    ended.store(true, Ordering::SeqCst);
    Ok(run)
}

/// Drops a call after each possible number of polls, until one is enough.
async fn drop_at_each_poll(
    make: impl Fn() -> Bench,
    mode: Mode,
    check: impl AsyncFn(&Bench, bool),
) {
    for polls in 1..100 {
        let bench = make();
        let ended = AtomicBool::new(false);
        let call = bench.op().mode(mode).run(body(&bench, &ended));
        let answered = poll_at_most(polls, call).await.is_some();
        check(&bench, ended.load(Ordering::SeqCst)).await;
        bench.at_rest().await;
        if answered {
            assert!(polls > 1, "the call never had to wait");
            return;
        }
    }
    panic!("the call never ended");
}

#[tokio::test]
async fn whenever_a_call_is_dropped_the_next_one_gets_an_answer() {
    for make in [support::local as fn() -> Bench, remote] {
        drop_at_each_poll(make, Mode::Strong, async |bench, ended| {
            let before = bench.runs();
            // In the background the first one may still be released or recorded.
            let next = loop {
                match bench.run().await {
                    Ok(next) => break next,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::InProgress),
                }
            };
            if ended {
                assert_eq!((next, bench.runs()), (1, 1), "an ended body ran again");
            } else {
                assert_eq!((next, bench.runs()), (before + 1, before + 1));
            }
        })
        .await;
    }
}

#[tokio::test]
async fn whenever_a_blocked_call_is_dropped_its_body_never_runs_twice() {
    for make in [support::local as fn() -> Bench, remote] {
        for polls in 1..100 {
            let bench = make();
            let ended = AtomicBool::new(false);
            let op = || bench.op().abandon(Abandon::Block);
            let answered = poll_at_most(polls, op().run(body(&bench, &ended))).await.is_some();
            bench.at_rest().await;
            let next = op().run(body(&bench, &ended)).await;
            assert_eq!(bench.runs(), 1);
            match next {
                Ok(value) => assert_eq!(value, 1),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Indeterminate),
            }
            if answered {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_call_dropped_before_its_body_started_leaves_no_record() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Begin);
    assert!(poll_at_most(20, bench.run()).await.is_none());
    gate.open();
    bench.store.answered(Verb::Release, 1).await;
    assert_eq!(bench.op().get().await.unwrap(), None);
    assert_eq!(bench.runs(), 0);
}

#[tokio::test]
async fn a_window_dropped_before_its_body_started_leaves_no_record() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Begin);
    let call = bench.op().mode(Mode::Window).run(async { Ok::<u8, Error>(1) });
    assert!(poll_at_most(20, call).await.is_none());
    gate.open();
    bench.store.answered(Verb::Release, 1).await;
    assert_eq!(bench.op().get().await.unwrap(), None);
}

#[tokio::test]
async fn a_follower_carries_on_with_the_begin_of_a_leader_that_goes() {
    let bench = remote();
    let gate = bench.store.hold_after(Verb::Begin);
    let leader = bench.spawn();
    gate.arrived(1).await;
    let follower = bench.spawn();
    leader.abort();
    assert!(leader.await.unwrap_err().is_cancelled());
    gate.open();
    assert_eq!(follower.await.unwrap().unwrap(), 1);
    assert_eq!(bench.store.calls(Verb::Begin), 1, "the begin under way was not taken over");
    assert_eq!(bench.store.calls(Verb::Release), 0);
}

#[tokio::test]
async fn a_follower_with_another_payload_has_the_leaders_begin_released_first() {
    use idempotent_runtime::Fingerprint;
    let bench = remote();
    let gate = bench.store.hold_after(Verb::Begin);
    let call = |payload: &'static str| {
        let bench = bench.clone();
        tokio::spawn(async move {
            let op = bench.op().fingerprint(Fingerprint::of(payload));
            op.run(async { Ok::<_, Error>(payload.to_owned()) }).await
        })
    };
    let leader = call("one");
    gate.arrived(1).await;
    let follower = call("two");
    tokio::task::yield_now().await;
    leader.abort();
    let _ = leader.await;
    gate.open();
    assert_eq!(follower.await.unwrap().unwrap(), "two");
    assert_eq!(bench.store.calls(Verb::Release), 1);
    bench.at_rest().await;
}

#[tokio::test]
async fn a_follower_with_a_longer_lease_does_not_carry_on_with_a_shorter_one() {
    let bench = remote();
    let gate = bench.store.hold_after(Verb::Begin);
    let call = |lease: Duration| {
        let bench = bench.clone();
        tokio::spawn(async move {
            let body = async {
                Ok::<_, Error>(
                    bench.op().get().await?.unwrap().head.attempt.claim.lease().as_secs(),
                )
            };
            bench.op().lease(lease).run(body).await
        })
    };
    let leader = call(Duration::from_secs(5));
    gate.arrived(1).await;
    let follower = call(Duration::from_secs(60));
    tokio::task::yield_now().await;
    leader.abort();
    let _ = leader.await;
    gate.open();
    assert_eq!(follower.await.unwrap().unwrap(), 60);
    bench.at_rest().await;
}

#[tokio::test]
async fn a_body_that_is_dropped_frees_the_key_for_whoever_waits() {
    for bench in both() {
        let first = bench.hang();
        until(|| bench.runs() == 1).await;
        let waiter = bench.spawn();
        tokio::task::yield_now().await;
        first.abort();
        assert_eq!(waiter.await.unwrap().unwrap(), 2);
    }
}

#[tokio::test]
async fn an_answer_whose_caller_goes_while_it_is_recorded_is_recorded() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Complete);
    let call = bench.spawn();
    gate.arrived(1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    gate.open();
    assert_eq!(bench.run().await.unwrap(), 1);
    assert_eq!(bench.runs(), 1);
}

#[tokio::test]
async fn a_waiter_that_gives_up_leaves_the_owners_record_alone() {
    for bench in both() {
        let (release, held) = tokio::sync::oneshot::channel::<()>();
        let owner = tokio::spawn({
            let bench = bench.clone();
            async move {
                let body = async {
                    bench.ledger.record("k");
                    held.await.unwrap();
                    Ok::<_, Error>(7)
                };
                bench.op().run(body).await
            }
        });
        until(|| bench.runs() == 1).await;
        for polls in [1, 2, 5, 10] {
            assert!(poll_at_most(polls, bench.run()).await.is_none());
        }
        let record = bench.op().get().await.unwrap().unwrap();
        assert_eq!(record.head.state, State::Processing);
        release.send(()).unwrap();
        assert_eq!(owner.await.unwrap().unwrap(), 7);
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn a_begin_that_arrives_after_its_caller_was_refused_is_released() {
    use idempotent_runtime::store::StoreErrorKind;
    use idempotent_runtime::testing::Fault;
    let bench = remote();
    bench.store.fault_always(Verb::Begin, Fault::Late(StoreErrorKind::Unavailable));
    let call = bench.spawn();
    // The pauses between the sends are on the clock.
    until(|| {
        bench.clock.advance(std::time::Duration::from_millis(50));
        call.is_finished()
    })
    .await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
    assert!(!error.body_ran());
    bench.store.deliver_late().await;
    until_async(|| async {
        bench.clock.advance(std::time::Duration::from_millis(50));
        bench.op().get().await.unwrap().is_none()
    })
    .await;
    assert_eq!(bench.runs(), 0);
}
