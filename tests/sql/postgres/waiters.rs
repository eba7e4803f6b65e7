//! Waiters in other processes: woken by notifications that are sent only if somebody waits, and
//! answered without them.

use super::site::{LEASE, PATIENT, Process, Site};
use idempotent_runtime::{Begin, Config, Mode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::until;

fn notifications(process: &Process) -> usize {
    let messages = process.proxy.take_messages();
    messages.iter().filter(|text| text.starts_with("SELECT pg_notify")).count()
}

/// Beneath the notifications, waiters poll as slowly as they may.
fn polls_rarely(process: &Process) {
    let config = Config::new().with_mode(Mode::Strong).with_wait(LEASE * 3).with_lease(LEASE * 3);
    let config = config.with_retry_interval(LEASE);
    process.idem.reconfigure(config).unwrap();
}

/// A call that waits for another process. It has marked the record when this returns.
async fn waits(
    site: &Site,
    process: &Arc<Process>,
    key: &'static str,
) -> tokio::task::JoinHandle<Result<usize, idempotent_runtime::Error>> {
    let waiter = Arc::clone(process);
    let call = tokio::spawn(async move { waiter.run(key).await });
    let watched = "SELECT count(*) FROM idempotent_records WHERE watched";
    let before = Instant::now();
    while site.number(watched).await == 0 {
        assert!(before.elapsed() < Duration::from_secs(30), "the record is not marked");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    call
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_in_another_process_is_woken() {
    let site = Site::start().await;
    let one = site.process_with(PATIENT).await;
    let other = Arc::new(site.process_with(PATIENT).await);
    polls_rarely(&other);
    let Begin::Fresh(attempt) = one.op("k").begin().await.unwrap() else { panic!("it is free") };
    let waiter = waits(&site, &other, "k").await;
    notifications(&one);
    attempt.complete(&7_usize).await.unwrap();
    let asked = Instant::now();
    assert_eq!(waiter.await.unwrap().unwrap(), 7);
    assert!(asked.elapsed() < LEASE / 3, "it was not woken: {:?}", asked.elapsed());
    let mut sent = 0;
    until(|| {
        sent += notifications(&one);
        sent > 0
    })
    .await;
    assert_eq!(sent, 1);
    assert!(!other.store.is_pooled() && !one.store.is_pooled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_that_nobody_waits_for_notifies_nobody() {
    let site = Site::start().await;
    let process = site.process_with(PATIENT).await;
    for key in ["a", "b", "c"] {
        process.run(key).await.unwrap();
        let failing = async { Err::<usize, _>(support::OwnError::new("own")) };
        process.op(&format!("{key} fails")).run(failing).await.unwrap_err();
        site.until_state(key, "succeeded").await;
    }
    until(|| process.idem.in_flight() == 0).await;
    assert_eq!(notifications(&process), 0);
}

/// The session that listens is ended; the next completion is not heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_answered_although_the_listening_connection_is_lost() {
    let site = Site::start().await;
    let one = site.process_with(PATIENT).await;
    let other = Arc::new(site.process_with(PATIENT).await);
    polls_rarely(&other);
    let Begin::Fresh(attempt) = one.op("k").begin().await.unwrap() else { panic!("it is free") };
    let waiter = waits(&site, &other, "k").await;
    assert!(site.terminate("query LIKE 'LISTEN%'").await > 0);
    attempt.complete(&7_usize).await.unwrap();
    let asked = Instant::now();
    assert_eq!(waiter.await.unwrap().unwrap(), 7);
    assert!(asked.elapsed() < LEASE / 3, "it waited for {:?}", asked.elapsed());
    assert!(!other.store.is_pooled(), "a lost connection was taken for a pooler");

    // The next waiter listens again.
    let Begin::Fresh(attempt) = one.op("next").begin().await.unwrap() else { panic!("free") };
    let waiter = waits(&site, &other, "next").await;
    attempt.complete(&8_usize).await.unwrap();
    let asked = Instant::now();
    assert_eq!(waiter.await.unwrap().unwrap(), 8);
    assert!(asked.elapsed() < LEASE / 3, "it was not woken: {:?}", asked.elapsed());
}

/// A server that does not answer the request to listen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_to_listen_that_is_lost_holds_up_no_waiter() {
    for fault in [crate::proxy::Fault::LoseReply, crate::proxy::Fault::CutBefore] {
        let site = Site::start().await;
        let one = site.process_with(PATIENT).await;
        let other = Arc::new(site.process().await);
        // By now it may listen already, to be told of keys that an operator frees.
        site.terminate("query LIKE 'LISTEN%'").await;
        other.proxy.strike(|text| text.starts_with("LISTEN"), fault);
        let Begin::Fresh(attempt) = one.op("k").begin().await.unwrap() else { panic!("free") };
        let waiter = {
            let other = Arc::clone(&other);
            tokio::spawn(async move { other.run("k").await })
        };
        until(|| other.proxy.has_struck()).await;
        attempt.complete(&7_usize).await.unwrap();
        let answer = tokio::time::timeout(LEASE, waiter).await.expect("it waits for ever");
        assert_eq!(answer.unwrap().unwrap(), 7);
        assert!(!other.store.is_pooled(), "{fault:?} was taken for a pooler");
    }
}

/// One caller of the process runs, another waits for it, and an operator frees the key elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_an_operator_frees_goes_to_the_waiter_in_another_process() {
    let site = Site::start().await;
    let one = Arc::new(site.process_with(PATIENT).await);
    let other = site.process_with(PATIENT).await;
    polls_rarely(&one);
    let call = |hangs: bool| {
        let one = Arc::clone(&one);
        tokio::spawn(async move {
            let body = async {
                let run = one.runs.record("k");
                if hangs {
                    std::future::pending::<()>().await;
                }
                Ok::<_, idempotent_runtime::Error>(run)
            };
            one.op("k").run(body).await
        })
    };
    let running = call(true);
    until(|| one.runs.ran("k") == 1).await;
    let waiting = call(false);
    let listens = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' \
                   AND datname = current_database() AND state = 'idle'";
    while site.number(listens).await == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // It has heard itself by then.
    tokio::time::sleep(Duration::from_millis(300)).await;
    other.op("k").forget(true).await.unwrap();
    let told = tokio::time::timeout(LEASE / 4, waiting).await;
    assert_eq!(told.expect("only a renewal tells it").unwrap().unwrap(), 2);
    running.abort();
}
