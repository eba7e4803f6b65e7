//! Callers that wait for another process, and notifications that were not heard.
//!
//! They poll so rarely that only a notification, or a look after one was missed, ends a test.

use crate::message::Message;
use crate::site::{LEASE, Process, Site, name, strong};
use idempotent_runtime::{Attempt, Begin};
use std::time::Duration;
use support::proxy::{Command, Fault, Gate};
use support::until;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

/// A process whose callers wait for as long as it takes.
async fn patient(site: &Site) -> Process {
    let config = strong().with_lease(LONG).with_wait(LONG).with_retry_interval(LONG);
    site.process_with(LEASE * 10, config).await
}

async fn begin(process: &Process, key: &str) -> Attempt {
    match process.op(key).begin().await.unwrap() {
        Begin::Fresh(attempt) => attempt,
        other => panic!("the key is not free: {other:?}"),
    }
}

fn subscribes(command: &Command) -> bool {
    command.name() == "SUBSCRIBE"
}

/// A call of `waiter` that waits for an attempt of another process, and has looked at it `looks`
/// times since the proxy counts.
async fn until_looked(waiter: &Process, key: &str, looks: usize) {
    // The first one asks for the right to run; the others only look.
    let (first, others) = (Message::Begin.about(&name(key)), Message::Look.about(&name(key)));
    until(|| waiter.proxy.answered(&first) + waiter.proxy.answered(&others) >= looks).await;
}

/// Has the process listen, by a call that waits for another process and is woken.
async fn listen(owner: &Process, waiter: &Process) {
    let attempt = begin(owner, "listen").await;
    let call = waiter.spawn("listen");
    until_looked(waiter, "listen", 2).await;
    attempt.complete(&0_usize).await.unwrap();
    until(|| call.is_finished()).await;
    assert_eq!(call.await.unwrap().unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ended_while_the_subscription_was_down_is_found_when_it_is_back() {
    let site = Site::start().await;
    let (owner, waiter) = (patient(&site).await, patient(&site).await);
    listen(&owner, &waiter).await;
    let attempt = begin(&owner, "k").await;
    let call = waiter.spawn("k");
    // Watched, and looked at once more after that.
    until_looked(&waiter, "k", 2).await;
    let gate = Gate::new();
    waiter.proxy.fault_always(subscribes, Fault::HoldRequest(gate.clone()));
    site.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    // Told that nothing is heard, the waiter has looked again; it hears nothing yet.
    until(|| gate.held() > 0).await;
    until_looked(&waiter, "k", 3).await;
    attempt.complete(&7_usize).await.unwrap();
    assert!(!call.is_finished(), "nobody could tell it");
    gate.open();
    until(|| call.is_finished()).await;
    assert_eq!(call.await.unwrap().unwrap(), 7);
    assert_eq!(site.runs.of("k"), 0);
    waiter.ends_clean().await;
    owner.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_ends_while_it_is_being_watched_wakes_although_the_next_one_is_not_marked()
{
    let site = Site::start().await;
    let (owner, waiter) = (patient(&site).await, patient(&site).await);
    listen(&owner, &waiter).await;
    let first = begin(&owner, "k").await;
    let gate = Gate::new();
    waiter.proxy.fault_at(1, Message::Mark.about(&name("k")), Fault::HoldReply(gate.clone()));
    let call = waiter.spawn("k");
    // The first attempt is marked, and the waiter does not know it yet.
    until(|| gate.held() == 1).await;
    first.fail().await.unwrap();
    let second = begin(&owner, "k").await;
    gate.open();
    // What it sees is the second attempt, which bears no mark of its own unless it looks twice.
    until_looked(&waiter, "k", 2).await;
    second.complete(&7_usize).await.unwrap();
    until(|| call.is_finished()).await;
    assert_eq!(call.await.unwrap().unwrap(), 7);
    assert_eq!(site.runs.of("k"), 0);
    waiter.ends_clean().await;
    owner.ends_clean().await;
}
