//! An operator frees a key that is held: its holder is told, and waiting callers go on.

use crate::leases::hold;
use idempotent_runtime::protocol::Forgotten;
use idempotent_runtime::testing::Verb;
use idempotent_runtime::{Abandon, ErrorKind};
use support::{LEASE, both, neighbour, remote, until};

#[tokio::test]
async fn whoever_holds_a_key_that_is_freed_in_its_process_is_told_at_once() {
    for bench in both() {
        let held = hold(&bench, Abandon::Retry).await;
        let waiting = bench.spawn();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let renewals = bench.store.calls(Verb::Renew);
        assert_eq!(bench.op().forget(true).await.unwrap(), Forgotten::Freed);
        until(|| held.attempt.is_lost()).await;
        held.attempt.lost().await;
        // Neither the waiter nor a later caller waits for a renewal: no clock was moved.
        assert_eq!(waiting.await.unwrap().unwrap(), 2);
        assert_eq!(bench.run().await.unwrap(), 2);
        assert_eq!(bench.store.calls(Verb::Renew), renewals);
        held.go.send(()).unwrap();
        assert_eq!(held.task.await.unwrap().unwrap_err().kind(), ErrorKind::Superseded);
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn a_key_that_is_not_freed_stays_with_its_holder() {
    for bench in both() {
        let held = hold(&bench, Abandon::Retry).await;
        assert_eq!(bench.op().forget(false).await.unwrap(), Forgotten::Held);
        let other = bench.idem.operation("test.op").key("another");
        assert_eq!(other.forget(true).await.unwrap(), Forgotten::NotFound);
        assert!(!held.attempt.is_lost());
        held.go.send(()).unwrap();
        assert_eq!(held.task.await.unwrap().unwrap(), 1);
    }
}

/// The answer to `forget` may be late. An attempt that was granted meanwhile keeps its key.
#[tokio::test]
async fn an_attempt_that_began_after_the_key_was_freed_keeps_it() {
    let bench = remote();
    let held = hold(&bench, Abandon::Retry).await;
    let forget = bench.store.hold_after(Verb::Forget);
    let operator = {
        let bench = bench.clone();
        tokio::spawn(async move { bench.op().forget(true).await })
    };
    forget.arrived(1).await;
    // This process is told by a renewal before it is by the operator's answer.
    bench.clock.advance(LEASE / 3);
    held.attempt.lost().await;
    let second = hold(&bench, Abandon::Retry).await;
    forget.open();
    assert_eq!(operator.await.unwrap().unwrap(), Forgotten::Freed);
    assert!(!second.attempt.is_lost());
    second.go.send(()).unwrap();
    assert_eq!(second.task.await.unwrap().unwrap(), 2);
    held.go.send(()).unwrap();
    assert_eq!(held.task.await.unwrap().unwrap_err().kind(), ErrorKind::Superseded);
}

#[tokio::test]
async fn whoever_holds_a_key_that_is_freed_elsewhere_is_told_by_its_next_renewal() {
    let bench = remote();
    let held = hold(&bench, Abandon::Retry).await;
    assert_eq!(neighbour(&bench).op().forget(true).await.unwrap(), Forgotten::Freed);
    assert!(!held.attempt.is_lost());
    bench.clock.advance(LEASE / 3);
    until(|| held.attempt.is_lost()).await;
    held.attempt.lost().await;
    held.go.send(()).unwrap();
    assert_eq!(held.task.await.unwrap().unwrap_err().kind(), ErrorKind::Superseded);
}
