//! The server dies and comes back, or stops answering for longer than a process waits.

use crate::message::Message;
use crate::site::{LEASE, SHORT_LEASE, Site, TIMEOUT, name, short, strong};
use idempotent_runtime::store::{RedisStore, State};
use idempotent_runtime::{Abandon, Error, ErrorKind, Idempotency};
use std::time::Duration;
use support::proxy::{Fault, Gate};
use support::redis::installed;
use support::until;

/// What a server knows after it was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    Kept,
    Lost,
}

impl Disk {
    async fn site(self) -> Site {
        let arguments: &[&str] = match self {
            Self::Kept => &["--appendonly", "yes", "--appendfsync", "always"],
            Self::Lost => &[],
        };
        Site::start_with(&installed(), arguments).await
    }
}

const BOTH: [Disk; 2] = [Disk::Kept, Disk::Lost];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_begin_that_a_restart_interrupts_is_still_ours_or_granted_anew() {
    for disk in BOTH {
        let mut site = disk.site().await;
        let process = site.process_with(Duration::from_secs(30), strong()).await;
        let begin = Message::Begin.about(&name("k"));
        // Executed and not answered; sent again, it is under way when the server dies.
        let (gate, back) = (Gate::new(), Gate::new());
        process.proxy.fault_at(1, begin.clone(), Fault::CutAfter);
        process.proxy.fault_at(2, begin.clone(), Fault::HoldRequest(gate.clone()));
        process.proxy.fault_at(3, begin.clone(), Fault::HoldRequest(back.clone()));
        let call = process.spawn("k");
        until(|| gate.held() == 1).await;
        assert_eq!(site.state("k").await, Some(State::Processing));
        // A server that reads its disk answers that it does, so the third begin waits for that.
        site.restart().await;
        back.open();
        assert_eq!(call.await.unwrap().unwrap(), 1, "{disk:?}");
        let begins = process.proxy.sent(&begin);
        assert!(begins.len() > 2 && begins.iter().all(|begin| *begin == begins[0]));
        assert_eq!(process.run("k").await.unwrap(), 1);
        assert_eq!(site.runs.of("k"), 1, "{disk:?}");
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_calls_are_refused_and_with_it_they_run() {
    let mut site = Site::start().await;
    let timeout = Duration::from_secs(30);
    let store = RedisStore::builder(&site.server.url()).timeout(timeout).connect().await.unwrap();
    let idem = Idempotency::builder().store(store).config(short()).build().unwrap();
    let op = || idem.operation("test.op").key("k");
    site.server.kill();
    let refused: Result<usize, Error> = op().run(async { Ok(site.runs.record("k")) }).await;
    let error = refused.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, false));
    assert!(error.is_retryable());
    site.restart().await;
    // Connecting again is not tried at once.
    let answer = loop {
        let answer: Result<usize, Error> = op().run(async { Ok(site.runs.record("k")) }).await;
        match answer {
            Err(error) if error.kind() == ErrorKind::StoreUnavailable => {}
            answer => break answer,
        }
    };
    assert_eq!(answer.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_runs_while_its_server_restarts_keeps_its_lease_or_is_told() {
    for disk in BOTH {
        let mut site = disk.site().await;
        let process = site.process_with(TIMEOUT, strong().with_lease(LEASE)).await;
        let held = process.hold("k").await;
        site.restart().await;
        match disk {
            Disk::Kept => {
                site.until_renewed("k").await;
                assert!(!held.attempt.is_lost());
            }
            Disk::Lost => held.attempt.lost().await,
        }
        assert_eq!(held.end().await.unwrap(), 1, "{disk:?}");
        let (state, again) = match disk {
            Disk::Kept => (Some(State::Succeeded), 1),
            // Without its lease it does not know who has run since.
            Disk::Lost => (None, 2),
        };
        site.until_state("k", state).await;
        assert_eq!(process.run("k").await.unwrap(), again, "{disk:?}");
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_a_restart_interrupts_is_stored_once() {
    for disk in BOTH {
        let mut site = disk.site().await;
        let process = site.process().await;
        let complete = Message::End(State::Succeeded);
        let gate = Gate::new();
        process.proxy.fault_at(1, complete.about(&name("k")), Fault::CutAfter);
        process.proxy.fault_at(2, complete.about(&name("k")), Fault::HoldRequest(gate.clone()));
        assert_eq!(process.run("k").await.unwrap(), 1, "{disk:?}");
        until(|| gate.held() == 1).await;
        let stored = site.bytes("k").await;
        site.restart().await;
        until(|| process.idem.in_flight() == 0).await;
        assert_eq!(site.bytes("k").await, stored, "{disk:?}");
        assert_eq!(process.run("k").await.unwrap(), 1);
        assert_eq!(site.runs.of("k"), 1, "{disk:?}");
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_an_answer_is_replayed_if_the_server_kept_it() {
    for (disk, expected) in [(Disk::Kept, 1), (Disk::Lost, 2)] {
        let mut site = disk.site().await;
        let process = site.process_with(Duration::from_secs(30), strong()).await;
        assert_eq!(process.run("k").await.unwrap(), 1);
        site.restart().await;
        assert_eq!(process.run("k").await.unwrap(), expected, "{disk:?}");
        assert_eq!(process.run("k").await.unwrap(), expected, "{disk:?}");
        assert_eq!(site.runs.of("k"), expected, "{disk:?}");
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_begin_that_a_stalled_server_takes_late_is_released() {
    let site = Site::start().await;
    let process = site.process_with(TIMEOUT, strong()).await;
    let begin = Message::Begin.about(&name("k"));
    site.server.pause();
    let error = process.run("k").await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, false));
    assert_eq!(process.proxy.answered(&begin), 0);
    site.server.go_on();
    until(|| process.proxy.answered(&begin) > 0).await;
    site.until_state("k", None).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    assert_eq!(site.runs.of("k"), 1);
    process.ends_clean().await;
}

/// The process gives up, its lease passes, and only then the server executes what it was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stalls_for_longer_than_a_lease_blocks_no_key_whose_body_never_started() {
    let site = Site::start().await;
    let process = site.process_with(SHORT_LEASE / 4, short().with_abandon(Abandon::Block)).await;
    let begin = Message::Begin.about(&name("k"));
    site.server.pause();
    let mut refused = Vec::new();
    for key in ["k", "l", "m"] {
        refused.push(process.run(key).await.unwrap_err());
    }
    for error in refused {
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, false));
    }
    tokio::time::sleep(SHORT_LEASE * 2).await;
    site.server.go_on();
    until(|| process.proxy.answered(&begin) > 0).await;
    for key in ["k", "l", "m"] {
        // In flight for a lease at most, and never indeterminate.
        let answer = loop {
            match process.run(key).await {
                Err(error) if error.kind() == ErrorKind::InProgress => {}
                answer => break answer,
            }
        };
        assert_eq!(answer.unwrap(), 1, "{key}");
    }
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_stored_by_a_server_that_stalled_for_longer_than_a_lease() {
    for abandon in [Abandon::Retry, Abandon::Block] {
        let site = Site::start().await;
        let process = site.process_with(SHORT_LEASE / 4, short()).await;
        let held = process.hold_as("k", move |op| op.abandon(abandon)).await;
        site.server.pause();
        held.attempt.lost().await;
        assert_eq!(held.end().await.unwrap(), 1);
        tokio::time::sleep(SHORT_LEASE * 2).await;
        assert_eq!(process.idem.in_flight(), 1, "{abandon:?}: the answer waits");
        site.server.go_on();
        site.until_state("k", State::Succeeded).await;
        assert_eq!(process.run("k").await.unwrap(), 1, "{abandon:?}");
        assert_eq!(site.runs.of("k"), 1, "{abandon:?}");
        process.ends_clean().await;
    }
}

/// Nothing was sent, so nothing has to be taken back when the server is there again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_were_refused_without_a_server_cost_it_nothing_later() {
    let mut site = Site::start().await;
    let store = RedisStore::connect(&site.server.url()).await.unwrap();
    let idem = Idempotency::builder().store(store).config(strong()).build().unwrap();
    site.server.kill();
    for key in 0..200_usize {
        let op = idem.operation("test.op").key(key);
        let refused: Result<usize, Error> = op.run(async { Ok(1) }).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::StoreUnavailable);
    }
    site.restart().await;
    let before = support::redis::info_number(&site.server, "total_commands_processed").await;
    assert_eq!(
        idem.shutdown(Duration::from_secs(60)).await,
        idempotent_runtime::instance::Drained::All
    );
    let after = support::redis::info_number(&site.server, "total_commands_processed").await;
    assert!(after - before < 20, "{} commands", after - before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_told_when_its_server_stalls_for_a_lease() {
    let site = Site::start().await;
    let process = site.process_with(SHORT_LEASE / 4, short()).await;
    let held = process.hold("k").await;
    site.server.pause();
    held.attempt.lost().await;
    site.server.go_on();
    assert_eq!(held.end().await.unwrap(), 1);
    site.until_state("k", State::Succeeded).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    assert_eq!(site.runs.of("k"), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_reaches_its_caller_while_the_server_stalls_and_is_stored_when_it_goes_on() {
    let site = Site::start().await;
    let process = site.process().await;
    let held = process.hold("k").await;
    site.server.pause();
    assert_eq!(held.end().await.unwrap(), 1);
    assert_eq!(process.idem.in_flight(), 1);
    site.server.go_on();
    until(|| process.idem.in_flight() == 0).await;
    assert_eq!(site.state("k").await, Some(State::Succeeded));
    assert_eq!(process.run("k").await.unwrap(), 1);
    assert_eq!(site.runs.of("k"), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_answer_is_refused_while_the_server_stalls_and_replayed_when_it_goes_on() {
    let site = Site::start().await;
    let process = site.process_with(TIMEOUT, short()).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    site.server.pause();
    let error = process.run("k").await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, false));
    site.server.go_on();
    let other = site.process().await;
    assert_eq!(other.run("k").await.unwrap(), 1);
    assert_eq!(site.runs.of("k"), 1);
    other.ends_clean().await;
    process.ends_clean().await;
}
