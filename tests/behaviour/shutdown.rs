//! Shutting down: running bodies are drained, new calls refused.

use idempotent_runtime::ErrorKind;
use idempotent_runtime::instance::Drained;
use idempotent_runtime::testing::Verb;
use std::time::Duration;
use support::{both, remote, until};

#[tokio::test]
async fn shutdown_waits_for_running_bodies_and_refuses_new_calls() {
    for bench in both() {
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn({
            let bench = bench.clone();
            async move {
                let body = async {
                    bench.ledger.record("k");
                    wait.await.unwrap();
                    Ok::<_, idempotent_runtime::Error>(1)
                };
                bench.op().run(body).await
            }
        });
        until(|| bench.runs() == 1).await;
        let stop = tokio::spawn({
            let idem = bench.idem.clone();
            async move { idem.shutdown(Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        let error = bench.run().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShuttingDown);
        assert!(!error.body_ran() && !stop.is_finished());
        go.send(()).unwrap();
        assert_eq!(running.await.unwrap().unwrap(), 1);
        assert_eq!(stop.await.unwrap(), Drained::All);
    }
}

#[tokio::test]
async fn shutdown_leaves_a_hung_body_to_its_lease() {
    for bench in both() {
        let hung = bench.hang();
        until(|| bench.runs() == 1).await;
        let stop = tokio::spawn({
            let idem = bench.idem.clone();
            async move { idem.shutdown(Duration::from_secs(10)).await }
        });
        until(|| {
            bench.clock.advance(Duration::from_millis(100));
            stop.is_finished()
        })
        .await;
        assert_eq!(stop.await.unwrap(), Drained::Left { attempts: 1 });
        hung.abort();
    }
}

#[tokio::test]
async fn shutdown_finishes_what_callers_left_behind() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Abandon);
    let hung = bench.hang();
    until(|| bench.runs() == 1).await;
    hung.abort();
    gate.arrived(1).await;
    let stop = tokio::spawn({
        let idem = bench.idem.clone();
        async move { idem.shutdown(Duration::from_secs(60)).await }
    });
    tokio::task::yield_now().await;
    assert!(!stop.is_finished());
    gate.open();
    assert_eq!(stop.await.unwrap(), Drained::All);
    assert_eq!(bench.store.answers(Verb::Abandon), 1);
}

#[tokio::test]
async fn a_waiter_outlives_a_shutdown_that_did_not_wait_for_it() {
    for bench in both() {
        let hung = bench.hang();
        until(|| bench.runs() == 1).await;
        let waiter = bench.spawn();
        tokio::task::yield_now().await;
        bench.idem.shutdown(Duration::ZERO).await;
        until(|| {
            bench.clock.advance(Duration::from_millis(100));
            waiter.is_finished()
        })
        .await;
        assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::InProgress);
        hung.abort();
    }
}
