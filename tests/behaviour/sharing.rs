//! Single flight: concurrent callers of one key in one process share one request to the store.

use idempotent_runtime::store::StoreErrorKind;
use idempotent_runtime::testing::{Fault, Verb};
use idempotent_runtime::{Error, ErrorKind, Mode};
use std::time::Duration;
use support::{neighbour, remote, until};

#[tokio::test]
async fn callers_at_once_send_one_begin_and_share_its_answer() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Complete);
    let calls: Vec<_> = (0..50).map(|_| bench.spawn()).collect();
    gate.arrived(1).await;
    gate.open();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), 1);
    }
    assert_eq!(bench.store.calls(Verb::Begin), 1);
    bench.at_rest().await;
}

#[tokio::test]
async fn a_reject_follower_answers_as_soon_as_the_leaders_begin_does() {
    let bench = remote();
    let begin = bench.store.hold(Verb::Begin);
    let leader = bench.hang();
    begin.arrived(1).await;
    let follower = tokio::spawn({
        let bench = bench.clone();
        async move { bench.op().mode(Mode::Reject).run(async { Ok::<usize, Error>(0) }).await }
    });
    tokio::task::yield_now().await;
    assert!(!follower.is_finished());
    begin.open();
    let error = follower.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InProgress);
    assert_eq!(bench.store.calls(Verb::Begin), 1);
    leader.abort();
}

#[tokio::test]
async fn a_refusal_is_shared_and_the_store_is_not_stormed() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Begin);
    bench.store.down(Verb::Begin);
    let calls: Vec<_> = (0..50).map(|_| bench.spawn()).collect();
    gate.arrived(1).await;
    gate.open();
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        calls.iter().all(|call| call.is_finished())
    })
    .await;
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::StoreUnavailable);
    }
    let begins = bench.store.calls(Verb::Begin);
    assert!(begins <= 6, "{begins} begins for 50 callers");
}

#[tokio::test]
async fn a_waiter_in_another_process_gets_the_answer() {
    let bench = remote();
    let other = neighbour(&bench);
    let gate = bench.store.hold(Verb::Complete);
    let owner = bench.spawn();
    gate.arrived(1).await;
    let waiters: Vec<_> = (0..20).map(|_| other.spawn()).collect();
    other.store.called(Verb::Watch, 0).await;
    tokio::task::yield_now().await;
    gate.open();
    assert_eq!(owner.await.unwrap().unwrap(), 1);
    until(|| {
        // The notification may be missed across processes; polling is on the clock.
        bench.clock.advance(Duration::from_millis(1));
        waiters.iter().all(|waiter| waiter.is_finished())
    })
    .await;
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap().unwrap(), 1);
    }
    assert_eq!((bench.runs(), other.runs()), (1, 0));
}

#[tokio::test]
async fn a_waiter_whose_patience_ends_leaves_its_seat_to_the_next_one() {
    let bench = remote();
    let other = neighbour(&bench);
    let owner = bench.hang();
    until(|| bench.runs() == 1).await;
    let wait = |seconds| {
        let other = other.clone();
        tokio::spawn(async move {
            let op = other.op().wait(Duration::from_secs(seconds));
            op.run(async { Ok::<_, Error>(other.ledger.record("k")) }).await
        })
    };
    let (short, long) = (wait(1), wait(20));
    until(|| {
        bench.clock.advance(Duration::from_millis(100));
        short.is_finished()
    })
    .await;
    assert_eq!(short.await.unwrap().unwrap_err().kind(), ErrorKind::InProgress);
    owner.abort();
    until(|| {
        bench.clock.advance(Duration::from_millis(100));
        long.is_finished()
    })
    .await;
    assert_eq!(long.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn waiting_ends_when_the_wait_is_over_counted_from_the_call() {
    for bench in support::both() {
        let owner = bench.hang();
        until(|| bench.runs() == 1).await;
        let waiter = bench.spawn();
        tokio::task::yield_now().await;
        bench.clock.advance(Duration::from_millis(4_900));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert!(!waiter.is_finished());
        until(|| {
            bench.clock.advance(Duration::from_millis(10));
            waiter.is_finished()
        })
        .await;
        assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::InProgress);
        owner.abort();
    }
}

#[tokio::test]
async fn an_answer_that_was_not_recorded_is_not_shared() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Complete);
    bench.store.fault_always(Verb::Complete, Fault::Before(StoreErrorKind::Unavailable));
    let leader = bench.spawn();
    gate.arrived(1).await;
    let follower = bench.spawn();
    tokio::task::yield_now().await;
    gate.open();
    assert_eq!(leader.await.unwrap().unwrap(), 1);
    assert!(!follower.is_finished(), "the follower got an answer that no record holds");
    bench.store.up(Verb::Complete);
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        follower.is_finished()
    })
    .await;
    assert_eq!(follower.await.unwrap().unwrap(), 1);
    assert_eq!(bench.runs(), 1);
}
