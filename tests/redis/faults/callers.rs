//! Callers that go away, bodies that panic, and a process that shuts down.

use crate::message::Message;
use crate::site::{LEASE, Process, SHORT_LEASE, Site, name, short, strong};
use idempotent_runtime::instance::Drained;
use idempotent_runtime::store::State;
use idempotent_runtime::{Abandon, AnswerPolicy, Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use support::proxy::{Fault, Gate};
use support::{poll_at_most, until};
use tokio::sync::oneshot;

/// Holds the replies to the next of these messages.
fn hold_reply(process: &Process, key: &str, message: Message) -> Gate {
    let gate = Gate::new();
    process.proxy.fault_at(1, message.about(&name(key)), Fault::HoldReply(gate.clone()));
    gate
}

async fn patient(site: &Site) -> Process {
    site.process_with(Duration::from_secs(30), strong()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_before_its_grant_arrives_leaves_nothing_behind() {
    let site = Site::start().await;
    let process = patient(&site).await;
    let gate = hold_reply(&process, "k", Message::Begin);
    let call = process.spawn("k");
    until(|| gate.held() == 1).await;
    assert_eq!(site.state("k").await, Some(State::Processing));
    call.abort();
    gate.open();
    site.until_state("k", None).await;
    assert_eq!(site.runs.of("k"), 0);
    assert_eq!(process.run("k").await.unwrap(), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_carry_on_with_what_a_caller_that_goes_has_sent() {
    let site = Site::start().await;
    let process = patient(&site).await;
    let gate = hold_reply(&process, "k", Message::Begin);
    let leader = process.spawn("k");
    until(|| gate.held() == 1).await;
    let mut followers = Vec::new();
    for _ in 0..20 {
        followers.push(process.spawn_behind("k").await);
    }
    leader.abort();
    gate.open();
    for follower in followers {
        assert_eq!(follower.await.unwrap().unwrap(), 1);
    }
    assert_eq!(site.runs.of("k"), 1);
    assert_eq!(process.proxy.sent(Message::Begin.about(&name("k"))).len(), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_dropped_frees_its_key_or_blocks_it() {
    let site = Site::start().await;
    let (process, other) = (patient(&site).await, patient(&site).await);
    let held = process.hold("retry").await;
    let fence = held.attempt.fence();
    held.drop_call().await;
    site.until_state("retry", State::FailedFree).await;
    let next = other.hold("retry").await;
    assert_eq!(next.attempt.attempt(), 2);
    assert!(next.attempt.fence() > fence);
    assert_eq!(next.end().await.unwrap(), 2);

    process.hold_as("block", |op| op.abandon(Abandon::Block)).await.drop_call().await;
    site.until_state("block", State::Abandoned).await;
    for process in [&process, &other] {
        let error = process.run("block").await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Indeterminate, false));
    }
    assert_eq!(site.runs.of("block"), 1);
    process.ends_clean().await;
    other.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_body_finishes_without_its_caller() {
    let site = Site::start().await;
    let process = patient(&site).await;
    let (go, told) = oneshot::channel();
    let (idem, runs) = (process.idem.clone(), site.runs.clone());
    let call = tokio::spawn(async move {
        let body = async move {
            let run = runs.record("k");
            let () = told.await.unwrap();
            Ok::<_, Error>(run)
        };
        idem.operation("test.op").key("k").run_detached(AnswerPolicy::kept(), body).await
    });
    until(|| site.runs.of("k") == 1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    go.send(()).unwrap();
    site.until_state("k", State::Succeeded).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_stored_also_if_its_caller_goes_meanwhile() {
    let site = Site::start().await;
    let process = patient(&site).await;
    let gate = hold_reply(&process, "k", Message::End(State::Succeeded));
    let call = process.spawn("k");
    until(|| gate.held() == 1).await;
    call.abort();
    gate.open();
    until(|| process.idem.in_flight() == 0).await;
    assert_eq!(site.state("k").await, Some(State::Succeeded));
    assert_eq!(process.run("k").await.unwrap(), 1);
    assert_eq!(site.runs.of("k"), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_a_caller_goes_the_next_one_gets_an_answer() {
    let site = Site::start().await;
    let (process, other) = (patient(&site).await, patient(&site).await);
    let mut dropped = 0;
    for round in 0..60_u32 {
        let key = &*format!("k{round}");
        let ended = Arc::new(AtomicBool::new(false));
        let call = tokio::spawn({
            let (idem, runs) = (process.idem.clone(), site.runs.clone());
            let (key, ended) = (key.to_owned(), Arc::clone(&ended));
            async move {
                let body = async {
                    let run = runs.record(&key);
                    tokio::time::sleep(Duration::from_micros(200)).await;
                    ended.store(true, SeqCst);
                    Ok::<_, Error>(run)
                };
                idem.operation("test.op").key(&key).run(body).await
            }
        });
        tokio::time::sleep(Duration::from_micros(u64::from(round) * 50)).await;
        call.abort();
        dropped += usize::from(call.await.is_err());
        let before = site.runs.of(key);
        let answer = other.run(key).await.unwrap();
        let expected = if ended.load(SeqCst) { 1 } else { before + 1 };
        assert_eq!((answer, site.runs.of(key)), (expected, expected), "{key}");
    }
    assert!(dropped > 0, "every call was faster than its end");
    process.ends_clean().await;
    other.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_panic_one_who_waits_runs_again_and_none_hangs() {
    let site = Site::start().await;
    let (process, other) = (patient(&site).await, patient(&site).await);
    let held = process.hold("k").await;
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(process.spawn_behind("k").await);
        waiting.push(other.spawn_behind("k").await);
    }
    held.panic().await;
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap(), 2);
    }
    assert_eq!(site.runs.of("k"), 2);
    process.ends_clean().await;
    other.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_panic_that_blocks_nobody_runs_again_and_none_hangs() {
    let site = Site::start().await;
    let (process, other) = (patient(&site).await, patient(&site).await);
    let held = process.hold_as("k", |op| op.abandon(Abandon::Block)).await;
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(process.spawn_behind("k").await);
        waiting.push(other.spawn_behind("k").await);
    }
    held.panic().await;
    for call in waiting {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Indeterminate, false));
    }
    assert_eq!(site.runs.of("k"), 1);
    assert_eq!(process.run("another").await.unwrap(), 1);
    process.ends_clean().await;
    other.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_drains_what_runs_and_refuses_what_is_new() {
    let site = Site::start().await;
    let (process, other) = (patient(&site).await, patient(&site).await);
    let held = process.hold("running").await;
    process.hold("dropped").await.drop_call().await;
    let granted = hold_reply(&process, "begun", Message::Begin);
    let begun = process.spawn("begun");
    until(|| granted.held() == 1).await;
    let idem = process.idem.clone();
    let mut stopping = std::pin::pin!(idem.shutdown(Duration::from_secs(60)));
    assert!(poll_at_most(1, &mut stopping).await.is_none());
    let error = process.run("new").await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::ShuttingDown, false));
    granted.open();
    assert_eq!(begun.await.unwrap().unwrap(), 1);
    assert!(poll_at_most(1, &mut stopping).await.is_none(), "a body still runs");
    assert_eq!(held.end().await.unwrap(), 1);
    assert_eq!(stopping.await, Drained::All);
    for (key, expected) in [("running", 1), ("begun", 1), ("dropped", 2)] {
        assert_eq!(other.run(key).await.unwrap(), expected, "{key}");
    }
    process.ends_clean().await;
    other.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_shutdown_leaves_behind_is_left_to_its_lease() {
    let site = Site::start().await;
    let process = site.process_with(LEASE, short()).await;
    let hung = process.hold("k").await;
    let grace = Duration::from_millis(10);
    assert_eq!(process.idem.shutdown(grace).await, Drained::Left { attempts: 1 });
    // Still renewed, for as long as the process lives.
    site.until_renewed("k").await;
    // The process ends: nothing of it reaches the server any more.
    drop(process);
    let other = site.process().await;
    assert_eq!(other.run("k").await.unwrap(), 2);
    assert!(site.ttl("k").await > SHORT_LEASE);
    drop(hung);
    other.ends_clean().await;
}
