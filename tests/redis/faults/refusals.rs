//! Every error of the table in `docs/redis.md`, driven through a whole call.

use crate::message::Message;
use crate::site::{EXPIRE, LEASE, Process, Site, name, strong};
use idempotent_runtime::protocol::{BeginRequest, Begun, StoreExt as _};
use idempotent_runtime::store::{Claim, RedisStore, Store, StoreErrorKind, Token};
use idempotent_runtime::{Abandon, BodyRun, Error, Mode};
use std::time::Duration;
use support::fake::Fake;
use support::proxy::{Command, Fault, Proxy};

/// A row of the table.
#[derive(Clone, Debug)]
struct Row {
    /// The error as a server words it.
    line: String,
    effect: String,
    connection: String,
    replays: String,
    told: String,
}

impl Row {
    fn replays(&self) -> bool {
        self.replays == "served"
    }
}

/// The rows of the table that a server answers with.
fn rows() -> Vec<Row> {
    let text = include_str!("../../../docs/redis.md");
    let (_, section) = text.split_once("\n## Errors of servers\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let lines = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    let rows = lines.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(|it| it.trim()).collect();
        let [error, _, effect, connection, replays, told] = cells[..] else { panic!("{line}") };
        let error = error.split('`').nth(1).unwrap_or_default();
        Row {
            line: match error.split_once(" .. ") {
                Some((code, says)) => format!("{code} {says}"),
                None => format!("{error} as a server words it"),
            },
            effect: effect.to_owned(),
            connection: connection.to_owned(),
            replays: replays.to_owned(),
            told: told.trim_matches('`').to_owned(),
        }
    });
    let (answered, unanswered): (Vec<_>, Vec<_>) = rows.partition(|row| !row.line.starts_with(' '));
    assert_eq!(unanswered.len(), 1, "{unanswered:?}");
    assert!(answered.len() > 20, "{answered:?}");
    // A server without a command or without a script is asked differently, and then answers.
    let found_out = ["NOSCRIPT", "unknown command", "syntax error"];
    answered.into_iter().filter(|row| !found_out.iter().any(|it| row.line.contains(it))).collect()
}

fn told(error: &Error) -> (String, BodyRun) {
    (format!("{:?}", error.kind()), error.body())
}

/// Answers every attempt to write this record with an error.
fn refuse(process: &Process, key: &str, line: &str) {
    let begin = Message::Begin.about(&name(key));
    process.proxy.fault_always(begin, Fault::Refuse(line.to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_call_is_told_and_its_body_does_not_run() {
    let site = Site::start().await;
    let process = site.process_with(LEASE, strong()).await;
    for row in rows() {
        refuse(&process, &row.line, &row.line);
        let error = process.run(&row.line).await.unwrap_err();
        assert_eq!(told(&error), (row.told.clone(), BodyRun::DidNotRun), "{error}");
        let text = error.to_string();
        assert!(text.contains(&row.line) || row.told == "Undecodable", "{row:?}: {text}");
        assert_eq!((site.runs.of(&row.line), site.state(&row.line).await), (0, None), "{row:?}");
    }
    process.proxy.heal();
    for row in rows() {
        assert_eq!(process.run(&row.line).await.unwrap(), 1, "{row:?}");
    }
}

async fn window(site: &Site, process: &Process, key: &str) -> Result<usize, Error> {
    process.op(key).mode(Mode::Window).run(async { Ok(site.runs.record(key)) }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_recorded_is_told_where_a_read_tells_it() {
    let site = Site::start().await;
    let config = strong().with_wait(Duration::ZERO);
    let process = site.process_with(LEASE, config.clone()).await;
    let other = site.process_with(LEASE, config).await;
    for row in rows() {
        let [done, running, taken] =
            ["done", "running", "taken"].map(|state| format!("{state} {}", row.line));
        assert_eq!(process.run(&done).await.unwrap(), 1);
        assert_eq!(window(&site, &process, &taken).await.unwrap(), 1);
        let held = process.hold(&running).await;
        for key in [&done, &running, &taken] {
            refuse(&other, key, &row.line);
        }
        let replayed = other.run(&done).await;
        let in_progress = other.run(&running).await.unwrap_err();
        let duplicate = window(&site, &other, &taken).await.unwrap_err();
        if row.replays() {
            assert_eq!(replayed.unwrap(), 1, "{row:?}");
            assert_eq!(
                told(&in_progress),
                ("InProgress".to_owned(), BodyRun::DidNotRun),
                "{row:?}"
            );
            let lease = in_progress.retry_after().unwrap();
            assert!(!lease.is_zero() && lease <= LEASE, "{lease:?}");
            assert_eq!(told(&duplicate), ("Duplicate".to_owned(), BodyRun::DidNotRun), "{row:?}");
            assert!(duplicate.retry_after().unwrap() <= EXPIRE);
        } else {
            for error in [replayed.unwrap_err(), in_progress, duplicate] {
                assert_eq!(told(&error), (row.told.clone(), BodyRun::DidNotRun), "{row:?}");
            }
        }
        assert_eq!(held.end().await.unwrap(), 1);
    }
    other.proxy.heal();
    for row in rows() {
        assert_eq!(other.run(&format!("running {}", row.line)).await.unwrap(), 1, "{row:?}");
    }
}

fn request() -> BeginRequest {
    let claim = Claim::Lease { lease: LEASE, linger: EXPIRE, abandon: Abandon::Retry };
    BeginRequest { token: Token::random(), fingerprint: None, fence_seed: 1, claim }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_says_whether_it_can_have_had_an_effect_and_costs_a_connection_where_that_helps() {
    let site = Site::start().await;
    let key = idempotent_runtime::key::RecordKey::from("k");
    let mut stores = Vec::new();
    for row in rows() {
        let proxy = Proxy::start(&site.server.address());
        let store = RedisStore::builder(&proxy.url()).timeout(LEASE).connect().await.unwrap();
        proxy.fault_always(|command: &_| is_set(command), Fault::Refuse(row.line.clone()));
        stores.push((row, proxy, store));
    }
    // Replaced once a second at most: when the youngest connection is, all others can be.
    let youngest = Proxy::start(&site.server.address());
    let store = RedisStore::builder(&youngest.url()).timeout(LEASE).connect().await.unwrap();
    youngest.fault_always(|command: &_| is_set(command), Fault::Refuse("READONLY it".to_owned()));
    support::until_async(|| async {
        store.begin(&key, &request()).await.unwrap_err();
        youngest.connections() > 1
    })
    .await;
    for (row, proxy, store) in &stores {
        assert_eq!(proxy.connections(), 1);
        let error = store.begin(&key, &request()).await.unwrap_err();
        assert_eq!(error.may_have_taken_effect(), row.effect == "possible", "{row:?}: {error}");
        store.health().await.unwrap();
        let made = if row.connection == "kept" { 1 } else { 2 };
        assert_eq!(proxy.connections(), made, "{row:?}");
    }
}

fn is_set(command: &Command) -> bool {
    command.name() == "SET"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_never_sent_had_no_effect_and_what_was_lost_may_have_had_one() {
    let mut site = Site::start().await;
    let key = idempotent_runtime::key::RecordKey::from("k");
    let proxy = Proxy::start(&site.server.address());
    let store = RedisStore::builder(&proxy.url()).timeout(LEASE).connect().await.unwrap();
    for fault in [Fault::CutBefore, Fault::CutAfter] {
        proxy.fault_at(1, is_set, fault);
        let error = store.begin(&key, &request()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        assert!(error.may_have_taken_effect(), "{error}");
    }
    proxy.fault_at(1, is_set, Fault::CutAfter);
    let many: Vec<_> = (0..3).map(|_| (key.clone(), request())).collect();
    for answer in store.execute_many(many.clone()).await {
        assert!(answer.unwrap_err().may_have_taken_effect());
    }
    let direct = RedisStore::builder(&site.server.url()).timeout(LEASE).connect().await.unwrap();
    site.server.kill();
    // The first one may find a connection whose end it has not heard of.
    support::until_async(|| async {
        !direct.begin(&key, &request()).await.unwrap_err().may_have_taken_effect()
    })
    .await;
    for answer in direct.execute_many(many.clone()).await {
        assert!(!answer.unwrap_err().may_have_taken_effect());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_could_not_be_confirmed_has_had_its_effect() {
    let site = Site::start().await;
    let proxy = Proxy::start(&site.server.address());
    let builder = RedisStore::builder(&proxy.url()).timeout(LEASE);
    let store = builder.replication(1, Duration::from_millis(1)).connect().await.unwrap();
    let key = idempotent_runtime::key::RecordKey::from("k");
    let forbidden = Fault::Refuse("NOPERM this user may not run the 'wait' command".to_owned());
    let is_wait = |command: &Command| command.name() == "WAIT";
    proxy.fault_always(is_wait, forbidden);
    let first = request();
    let error = store.begin(&key, &first).await.unwrap_err();
    assert!(error.may_have_taken_effect(), "{error}");
    assert!(error.to_string().contains("'wait'"), "{error}");
    assert!(store.load(&key).await.unwrap().is_some());
    // Sent again, it finds its record. What is refused then is only the confirmation.
    let confirms =
        |command: &Command| command.name().starts_with("EVAL") && command.words().len() == 4;
    proxy.fault_always(confirms, Fault::Refuse("NOREPLICAS Not enough".to_owned()));
    let error = store.begin(&key, &first).await.unwrap_err();
    assert!(error.may_have_taken_effect(), "{error}");
    assert!(error.to_string().contains("NOREPLICAS"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_may_send_twice_leaves_open_whether_there_was_an_effect() {
    let site = Site::start().await;
    let proxy = Proxy::start(&site.server.address());
    let connection = support::redis::connection(&proxy.url()).await;
    let store = RedisStore::with_connection(connection).connect().await.unwrap();
    proxy.fault_always(is_set, Fault::Refuse("MISCONF the disk is full".to_owned()));
    let key = idempotent_runtime::key::RecordKey::from("k");
    let error = store.begin(&key, &request()).await.unwrap_err();
    assert!(error.may_have_taken_effect(), "{error}");
}

#[tokio::test]
async fn a_record_that_was_written_counts_although_it_could_not_be_read() {
    // A server before 7.0, which takes two commands to begin.
    let fake = Fake::redis(|command| match command {
        "INFO" => "$21\r\nredis_version:6.2.0\r\n\r\n".to_owned(),
        "HELLO" => "%0\r\n".to_owned(),
        "GET" => "-NOPERM this user may not run the 'get' command\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    });
    let store = RedisStore::connect(&fake.url()).await.unwrap();
    let key = idempotent_runtime::key::RecordKey::from("k");
    let request = request();
    assert_eq!(store.begin(&key, &request).await.unwrap(), Begun::Fresh(request.first_attempt()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_begin_of_a_pipeline_has_its_own_error() {
    let site = Site::start().await;
    let process = site.process_with(LEASE, strong()).await;
    let keys: Vec<_> = ["a", "b", "c"]
        .map(|key| (process.op(key).record_key().unwrap(), request()))
        .into_iter()
        .collect();
    refuse(&process, "b", "MISCONF the disk is full");
    let mut answers = process.idem.store().execute_many(keys.clone()).await.into_iter();
    assert!(answers.next().unwrap().is_ok());
    let error = answers.next().unwrap().unwrap_err();
    assert!(!error.may_have_taken_effect() && error.to_string().contains("MISCONF"), "{error}");
    assert!(answers.next().unwrap().is_ok());
    // What was answered with something that is no answer may have had an effect.
    process.proxy.fault_at(1, Message::Begin.about(&name("a")), Fault::Refuse("ERR odd".into()));
    let error = process.idem.store().execute_many(keys.clone()).await.remove(0).unwrap_err();
    assert!(error.may_have_taken_effect(), "{error}");
}
