//! Commands per call, counted on their way to the server.

use crate::message::Message;
use crate::site::{Process, Site, name, strong};
use idempotent_runtime::store::{RedisStore, State};
use idempotent_runtime::{Abandon, Error, ErrorKind, Mode};
use std::time::{Duration, Instant};
use support::proxy::{Command, Fault, Gate};
use support::redis::binaries;
use support::{OwnError, size, until, until_async};

/// Longer than any test takes: nothing is polled, renewed or sent again meanwhile.
const LONG: Duration = Duration::from_secs(120);

/// More rows of a batch than one message holds.
const MANY: u16 = 600;

/// A process that sends nothing but what its calls need.
async fn quiet(site: &Site) -> Process {
    let config = strong().with_lease(LONG * 3).with_wait(LONG * 2).with_retry_interval(LONG);
    site.process_with(LONG, config).await
}

/// The names of the commands that were sent since the last look.
fn sent(process: &Process) -> Vec<String> {
    let names = process.proxy.commands().iter().map(Command::name).collect();
    process.proxy.forget();
    names
}

/// The commands that a server's version makes a store choose.
struct Choice {
    begin: &'static [&'static str],
    swap: &'static str,
    delete: &'static str,
}

impl Choice {
    fn on(version: &str) -> Self {
        const SET: &[&str] = &["SET"];
        let (product, version) = version.split_once(' ').unwrap();
        match (product, version) {
            // Two commands that travel together.
            ("redis", it) if it.starts_with("6.2") => {
                Self { begin: &["SET", "GET"], swap: "EVALSHA", delete: "EVALSHA" }
            }
            ("redis", it) if it.starts_with("7.") || it.starts_with("8.0") => {
                Self { begin: SET, swap: "EVALSHA", delete: "EVALSHA" }
            }
            ("redis", _) => Self { begin: SET, swap: "SET", delete: "DELEX" },
            ("valkey", it) if it.starts_with("8.") => {
                Self { begin: SET, swap: "SET", delete: "EVALSHA" }
            }
            ("valkey", _) => Self { begin: SET, swap: "SET", delete: "DELIFEQ" },
            _ => panic!("what does {product} send?"),
        }
    }

    fn begin_and(&self, more: &[&str]) -> Vec<String> {
        self.begin.iter().chain(more).map(|&name| name.to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_execution_is_two_commands_and_a_replay_is_one() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let store = RedisStore::connect(&site.server.url()).await.unwrap();
        let version = store.server_version();
        let choice = Choice::on(version);
        let (process, other) = (quiet(&site).await, quiet(&site).await);
        process.proxy.forget();

        assert_eq!(process.run("k").await.unwrap(), 1);
        assert_eq!(sent(&process), choice.begin_and(&[choice.swap]), "first, {version}");
        assert_eq!(process.run("k").await.unwrap(), 1);
        assert_eq!(sent(&process), choice.begin_and(&[]), "replay, {version}");

        let block = process.op("block").abandon(Abandon::Block);
        let ran: Result<usize, Error> = block.run(async { Ok(site.runs.record("block")) }).await;
        assert_eq!(ran.unwrap(), 1);
        let expected = choice.begin_and(&[choice.swap, choice.swap]);
        assert_eq!(sent(&process), expected, "first under block, {version}");

        let held = other.hold("held").await;
        let reject = process.op("held").mode(Mode::Reject);
        let rejected: Result<usize, Error> =
            reject.run(async { Ok(site.runs.record("held")) }).await;
        assert_eq!(rejected.unwrap_err().kind(), ErrorKind::InProgress);
        // The second look is at the lease that is left.
        assert_eq!(sent(&process), choice.begin_and(&["EVALSHA"]), "in flight, {version}");
        assert_eq!(held.end().await.unwrap(), 1);

        let failing = || {
            process.op("failing").run(async {
                site.runs.record("failing");
                Err::<usize, _>(OwnError::new("own"))
            })
        };
        failing().await.unwrap_err();
        assert_eq!(sent(&process), choice.begin_and(&[choice.swap]), "error, {version}");
        // A key that was freed takes one command more: what is there has to be replaced.
        failing().await.unwrap_err();
        let expected = choice.begin_and(&[choice.swap, choice.swap]);
        assert_eq!(sent(&process), expected, "error again, {version}");

        let granted = Gate::new();
        let begin = Message::Begin.about(&name("gone"));
        process.proxy.fault_at(1, begin, Fault::HoldReply(granted.clone()));
        let call = process.spawn("gone");
        until(|| granted.held() == 1).await;
        call.abort();
        granted.open();
        site.until_state("gone", None).await;
        process.idem.shutdown(LONG).await;
        assert_eq!(sent(&process), choice.begin_and(&[choice.delete]), "released, {version}");
        assert_eq!((site.runs.of("k"), site.runs.of("gone")), (1, 0));
        process.ends_clean().await;
        other.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_nobody_waits_for_publishes_nothing() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let process = quiet(&site).await;
        let before = site.executed("publish").await;
        assert_eq!(process.run("k").await.unwrap(), 1);
        assert_eq!(process.run("k").await.unwrap(), 1);
        process.hold("dropped").await.drop_call().await;
        site.until_state("dropped", State::FailedFree).await;
        assert_eq!(site.executed("publish").await, before, "{}", binary.display());
        process.ends_clean().await;
    }
}

/// Waits until somebody waits for a record: its mark is set.
async fn until_awaited(site: &Site, key: &str) {
    until_async(|| async { site.bytes(key).await.unwrap()[2] == 1 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_waits_elsewhere_is_woken_by_one_notification() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let (process, other) = (quiet(&site).await, quiet(&site).await);
        let before = site.executed("publish").await;
        let held = process.hold("k").await;
        let waiting = other.spawn("k");
        until_awaited(&site, "k").await;
        let ended = Instant::now();
        assert_eq!(held.end().await.unwrap(), 1);
        assert_eq!(waiting.await.unwrap().unwrap(), 1);
        // Polling would begin after half of `LONG` at the earliest.
        assert!(ended.elapsed() < LONG / 4, "{:?}", ended.elapsed());
        assert_eq!(site.executed("publish").await, before + 1, "{}", binary.display());
        assert_eq!(site.runs.of("k"), 1);
        process.ends_clean().await;
        other.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_waits_elsewhere_is_woken_when_the_attempt_ends_without_an_answer() {
    let site = Site::start().await;
    let (process, other) = (quiet(&site).await, quiet(&site).await);
    let held = process.hold("k").await;
    let waiting = other.spawn("k");
    until_awaited(&site, "k").await;
    let ended = Instant::now();
    held.drop_call().await;
    assert_eq!(waiting.await.unwrap().unwrap(), 2);
    assert!(ended.elapsed() < LONG / 4, "{:?}", ended.elapsed());
    process.ends_clean().await;
    other.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_wait_in_one_process_cost_a_handful_of_commands() {
    let waiters = size(10_000, 100_000);
    let site = Site::start().await;
    let (process, other) = (quiet(&site).await, quiet(&site).await);
    let held = process.hold("k").await;
    other.proxy.forget();
    let mut calls = Vec::with_capacity(waiters);
    for _ in 0..waiters {
        calls.push(other.spawn_behind("k").await);
    }
    until_awaited(&site, "k").await;
    assert_eq!(held.end().await.unwrap(), 1);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), 1);
    }
    assert_eq!(site.runs.of("k"), 1);
    let commands = other.proxy.commands();
    assert!(commands.len() <= 30, "{} commands: {commands:?}", commands.len());
    process.ends_clean().await;
    other.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_sends_no_more_commands_than_calls_of_its_keys() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let store = RedisStore::connect(&site.server.url()).await.unwrap();
        let version = store.server_version();
        let choice = Choice::on(version);
        let process = quiet(&site).await;
        process.proxy.forget();
        let first = choice.begin_and(&[choice.swap]);
        for (expected, which) in [(first, "first"), (choice.begin_and(&[]), "replay")] {
            let rows = (0..MANY).map(|row| (row, row));
            let body =
                |rows: Vec<u16>| async { rows.into_iter().map(Ok::<u16, OwnError>).collect() };
            let answers = process.op("batch").run_batch(rows, body).await;
            let answers: Vec<u16> = answers.into_iter().map(|row| row.unwrap().value).collect();
            assert_eq!(answers, (0..MANY).collect::<Vec<_>>(), "{which}, {version}");
            let (mut sent, mut expected) =
                (sent(&process), vec![expected; usize::from(MANY)].concat());
            sent.sort();
            expected.sort();
            assert_eq!(sent, expected, "{which}, {version}");
        }
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_row_runs_again_as_soon_as_the_batch_has_returned() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let process = quiet(&site).await;
        for mode in [Mode::Strong, Mode::Reject] {
            let key = |row: u8| format!("{mode:?} {row}");
            let body = |rows: Vec<u8>| async move {
                let answer = |row| if row == 2 { Err(OwnError::new("no")) } else { Ok(row) };
                rows.into_iter().map(answer).collect()
            };
            let op = |key: &str| process.op(key).mode(mode).wait(Duration::ZERO);
            let rows = [1_u8, 2, 3].map(|row| (key(row), row));
            let answers = op("batch").run_batch(rows, body).await;
            assert_eq!(answers[1].as_ref().unwrap_err().0, "no");
            let again: Result<u8, Error> = op(&key(2)).run(async { Ok(9) }).await;
            assert_eq!(again.unwrap(), 9, "{mode:?}");
        }
        process.ends_clean().await;
    }
}
