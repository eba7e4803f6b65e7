//! Jumps of time, and messages of an attempt that arrive after the next one has begun or ended.

use crate::message::Message;
use crate::site::{EXPIRE, LEASE, Process, Site, name, strong};
use idempotent_runtime::store::State;
use idempotent_runtime::{Abandon, Error, ErrorKind};
use std::time::Duration;
use support::proxy::{Fault, Gate};
use support::{OwnError, until};
use tokio::task::JoinHandle;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);
/// The lease of an attempt whose renewal is to be late.
const RENEWED_SOON: Duration = Duration::from_millis(1_500);

/// How far the second attempt has got when the message of the first one arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    Runs,
    Succeeded,
}

/// Two processes that wait for as long as it takes, so that nothing is sent twice.
async fn patient(site: &Site, lease: Duration) -> (Process, Process) {
    let first = site.process_with(LONG, strong().with_lease(lease)).await;
    let second = site.process_with(LONG, strong().with_lease(LONG)).await;
    (first, second)
}

/// The held `message` of a first attempt arrives when the second is where it is said to be, and
/// changes neither its record nor how long that lives. The second one succeeds.
async fn arrives_too_late(
    site: &Site,
    (first, second): (&Process, &Process),
    (key, message): (&str, Message),
    gate: &Gate,
    at: Second,
) {
    until(|| gate.held() == 1).await;
    let runs = site.runs.of(key);
    site.age(key, LONG).await;
    let running = match at {
        Second::Runs => Some(second.hold(key).await),
        Second::Succeeded => {
            assert_eq!(second.run(key).await.unwrap(), runs + 1);
            None
        }
    };
    // Little is left of the second lease, so that anything which extends it is seen.
    if at == Second::Runs {
        site.age(key, LONG - Duration::from_millis(500)).await;
    }
    let (bytes, ttl) = (site.bytes(key).await, site.ttl(key).await);
    gate.open();
    let sent = message.about(&name(key));
    until(|| first.proxy.answered(&sent) == first.proxy.sent(&sent).len()).await;
    assert_eq!(site.bytes(key).await, bytes, "{message:?}, {at:?}");
    assert!(site.ttl(key).await <= ttl, "{message:?}, {at:?}");
    if let Some(running) = running {
        assert_eq!(running.end().await.unwrap(), runs + 1);
    }
    assert_eq!(second.run(key).await.unwrap(), runs + 1);
    assert_eq!(site.runs.of(key), runs + 1);
    assert_eq!(site.state(key).await, Some(State::Succeeded));
}

fn hold(process: &Process, key: &str, message: Message) -> Gate {
    let gate = Gate::new();
    process.proxy.fault_at(1, message.about(&name(key)), Fault::HoldRequest(gate.clone()));
    gate
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_renewal_does_not_extend_the_next_attempt() {
    let site = Site::start().await;
    for (key, at) in [("runs", Second::Runs), ("succeeded", Second::Succeeded)] {
        let (first, second) = patient(&site, RENEWED_SOON).await;
        let gate = hold(&first, key, Message::Renew);
        let held = first.hold(key).await;
        arrives_too_late(&site, (&first, &second), (key, Message::Renew), &gate, at).await;
        held.attempt.lost().await;
        let error = held.end().await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Superseded, true));
        first.ends_clean().await;
        second.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_is_superseded_and_does_not_complete_the_next_attempt() {
    let site = Site::start().await;
    let complete = Message::End(State::Succeeded);
    for (key, at) in [("runs", Second::Runs), ("succeeded", Second::Succeeded)] {
        let (first, second) = patient(&site, LONG).await;
        let gate = hold(&first, key, complete);
        let call = first.hold(key).await.finish();
        arrives_too_late(&site, (&first, &second), (key, complete), &gate, at).await;
        let error = call.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Superseded, true));
        first.ends_clean().await;
        second.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_error_reaches_its_caller_and_does_not_free_the_next_attempt() {
    let site = Site::start().await;
    let fail = Message::End(State::FailedFree);
    for (key, at) in [("runs", Second::Runs), ("succeeded", Second::Succeeded)] {
        let (first, second) = patient(&site, LONG).await;
        let gate = hold(&first, key, fail);
        let (idem, runs) = (first.idem.clone(), site.runs.clone());
        let call: JoinHandle<Result<usize, OwnError>> = tokio::spawn(async move {
            let body = async {
                runs.record(key);
                Err(OwnError::new("own"))
            };
            idem.operation("test.op").key(key).run(body).await
        });
        arrives_too_late(&site, (&first, &second), (key, fail), &gate, at).await;
        assert_eq!(call.await.unwrap().unwrap_err().0, "own");
        first.ends_clean().await;
        second.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_abandon_does_not_free_the_next_attempt() {
    let site = Site::start().await;
    let abandon = Message::End(State::FailedFree);
    for (key, at) in [("runs", Second::Runs), ("succeeded", Second::Succeeded)] {
        let (first, second) = patient(&site, LONG).await;
        let gate = hold(&first, key, abandon);
        first.hold(key).await.drop_call().await;
        arrives_too_late(&site, (&first, &second), (key, abandon), &gate, at).await;
        first.ends_clean().await;
        second.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_release_does_not_free_the_next_attempt() {
    let site = Site::start().await;
    for (key, at) in [("runs", Second::Runs), ("succeeded", Second::Succeeded)] {
        let (first, second) = patient(&site, LONG).await;
        let granted = Gate::new();
        let begin = Message::Begin.about(&name(key));
        first.proxy.fault_at(1, begin, Fault::HoldReply(granted.clone()));
        let gate = hold(&first, key, Message::Delete);
        let call = first.spawn(key);
        until(|| granted.held() == 1).await;
        call.abort();
        granted.open();
        arrives_too_late(&site, (&first, &second), (key, Message::Delete), &gate, at).await;
        assert_eq!(site.runs.of(key), 1);
        first.ends_clean().await;
        second.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_clock_of_the_server_jumps_ahead_the_first_attempt_is_superseded() {
    let site = Site::start().await;
    let (first, second) = patient(&site, LONG).await;
    let held = first.hold("k").await;
    let fence = held.attempt.fence();
    site.age("k", LONG).await;
    let other = second.hold("k").await;
    assert_eq!(other.attempt.attempt(), 2);
    assert!(other.attempt.fence() > fence);
    assert_eq!(other.end().await.unwrap(), 2);
    let bytes = site.bytes("k").await;
    let error = held.end().await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Superseded, true));
    assert_eq!(site.bytes("k").await, bytes, "the record is the winner's");
    assert_eq!(first.run("k").await.unwrap(), 2);
    first.ends_clean().await;
    second.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_clock_of_the_server_jumps_ahead_a_blocking_attempt_still_completes() {
    let site = Site::start().await;
    let (first, second) = patient(&site, LONG).await;
    let held = first.hold_as("k", |op| op.abandon(Abandon::Block)).await;
    site.age("k", LONG).await;
    let error = second.run("k").await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Indeterminate, false));
    assert_eq!(held.end().await.unwrap(), 1);
    assert_eq!(second.run("k").await.unwrap(), 1);
    assert_eq!(site.runs.of("k"), 1);
    first.ends_clean().await;
    second.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_clock_of_the_server_jumps_back_nobody_is_kept_away_for_longer_than_a_lease() {
    let site = Site::start().await;
    let (first, second) = patient(&site, LEASE).await;
    let held = first.hold("k").await;
    let longer = (EXPIRE + LEASE * 100).as_millis().to_string();
    site.command(&["PEXPIRE", &name("k"), &longer]).await;
    let refused: Result<usize, Error> =
        second.op("k").wait(Duration::ZERO).run(async { Ok(site.runs.record("k")) }).await;
    let error = refused.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::InProgress, false));
    assert!(error.retry_after().unwrap() <= LEASE, "{error}");
    assert_eq!(held.end().await.unwrap(), 1);
    assert_eq!(second.run("k").await.unwrap(), 1);
    first.ends_clean().await;
    second.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_end_of_a_lease_one_of_many_takes_over() {
    let site = Site::start().await;
    let mut processes = Vec::new();
    for _ in 0..4 {
        processes.push(site.process_with(LONG, strong()).await);
    }
    let first = site.process_with(LONG, strong().with_lease(LONG)).await;
    for round in 0..5 {
        let key = &*format!("k{round}");
        let held = first.hold(key).await;
        site.age(key, site.ttl(key).await - EXPIRE - Duration::from_millis(5)).await;
        let calls: Vec<_> = processes.iter().map(|process| process.spawn(key)).collect();
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap(), 2);
        }
        assert_eq!(site.runs.of(key), 2);
        assert_eq!(held.end().await.unwrap_err().kind(), ErrorKind::Superseded);
    }
    for process in processes {
        process.ends_clean().await;
    }
    first.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_end_of_its_retention_an_answer_is_replayed_or_made_anew() {
    let site = Site::start().await;
    let mut processes = Vec::new();
    for _ in 0..4 {
        processes.push(site.process_with(LONG, strong()).await);
    }
    let mut anew = 0;
    for round in 0..10 {
        let key = &*format!("k{round}");
        assert_eq!(processes[0].run(key).await.unwrap(), 1);
        site.age(key, site.ttl(key).await - Duration::from_millis(round)).await;
        let calls: Vec<_> = processes.iter().map(|process| process.spawn(key)).collect();
        let mut answers = Vec::new();
        for call in calls {
            answers.push(call.await.unwrap().unwrap());
        }
        let runs = site.runs.of(key);
        assert!(runs <= 2 && answers.iter().all(|answer| (1..=runs).contains(answer)));
        anew += runs - 1;
    }
    assert!(anew > 0, "no record ever expired");
    for process in processes {
        process.ends_clean().await;
    }
}
