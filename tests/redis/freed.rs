//! An operator frees a key that another process holds.

use crate::site::{Process, Site, strong};
use idempotent_runtime::ErrorKind;
use idempotent_runtime::protocol::Forgotten;
use std::time::Duration;
use support::redis::binaries;
use support::until_async;

/// Longer than any test takes: nothing is renewed or polled meanwhile.
const LONG: Duration = Duration::from_secs(120);

async fn quiet(site: &Site) -> Process {
    let config = strong().with_lease(LONG * 3).with_wait(LONG * 2).with_retry_interval(LONG);
    site.process_with(LONG, config).await
}

async fn until_heard(site: &Site) {
    until_async(|| async {
        let answer = site.command(&["PUBSUB", "NUMSUB", "idempotent:freed"]).await;
        let (_, subscribers): (String, usize) = redis::from_redis_value(answer).unwrap();
        subscribers == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_whose_callers_wait_for_its_own_attempt_hears_that_the_key_was_freed() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let (process, operator) = (quiet(&site).await, quiet(&site).await);
        let held = process.hold("k").await;
        let kept = process.hold("kept").await;
        let waiting = process.spawn("k");
        until_heard(&site).await;
        assert_eq!(operator.op("k").forget(true).await.unwrap(), Forgotten::Freed);
        // By time alone, the waiter would be let go after a third of the lease.
        assert_eq!(waiting.await.unwrap().unwrap(), 2);
        assert_eq!(process.run("k").await.unwrap(), 2);
        let superseded = held.end().await.unwrap_err();
        assert_eq!(superseded.kind(), ErrorKind::Superseded);
        assert_eq!(kept.end().await.unwrap(), 1, "another key stays with its holder");
        process.ends_clean().await;
        operator.ends_clean().await;
    }
}

/// Without a waiting caller it costs nothing: no connection is made to hear of operators.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_in_which_nobody_waits_does_not_listen() {
    let site = Site::start().await;
    let process = quiet(&site).await;
    let held = process.hold("k").await;
    let subscribed = process.proxy.sent(|command| command.name() == "SUBSCRIBE");
    assert!(subscribed.is_empty(), "{subscribed:?}");
    assert_eq!(held.end().await.unwrap(), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_elsewhere_for_a_key_that_is_freed_runs_next() {
    let site = Site::start().await;
    let (process, other) = (quiet(&site).await, quiet(&site).await);
    let held = process.hold("k").await;
    let waiting = other.spawn("k");
    until_async(|| async { site.bytes("k").await.unwrap()[2] == 1 }).await;
    assert_eq!(process.op("k").forget(true).await.unwrap(), Forgotten::Freed);
    assert_eq!(waiting.await.unwrap().unwrap(), 2);
    assert_eq!(held.end().await.unwrap_err().kind(), ErrorKind::Superseded);
    process.ends_clean().await;
    other.ends_clean().await;
}
