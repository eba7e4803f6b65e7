//! Interventions of an operator: deleted records, a full server, flushed scripts, eviction.

use crate::message::Message;
use crate::site::{Site, TIMEOUT, name, strong};
use idempotent_runtime::store::{RedisStore, State, StoreErrorKind};
use idempotent_runtime::{Begin, ErrorKind};
use std::time::Duration;
use support::redis::binaries;
use support::{OwnError, until};

/// Short, so that renewals come soon, and yet longer than a pause of a busy machine.
const RENEWED_SOON: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_whose_record_is_deleted_is_told_and_its_answer_is_not_written_again() {
    let site = Site::start().await;
    for deletion in [vec!["FLUSHALL"], vec!["DEL", &name("DEL")], vec!["UNLINK", &name("UNLINK")]] {
        let key = deletion[0];
        let process = site.process_with(TIMEOUT, strong().with_lease(RENEWED_SOON)).await;
        let held = process.hold(key).await;
        site.command(&deletion).await;
        held.attempt.lost().await;
        assert_eq!(held.end().await.unwrap(), 1, "{key}");
        // Another attempt may have run meanwhile; what became of its answer is not known here.
        assert_eq!(site.state(key).await, None, "{key}");
        assert_eq!(process.run(key).await.unwrap(), 2, "{key}");
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_whose_record_is_deleted_within_its_lease_is_written_again() {
    let site = Site::start().await;
    let process = site.process_with(TIMEOUT, strong().with_lease(Duration::from_secs(600))).await;
    let held = process.hold("k").await;
    site.command(&["DEL", &name("k")]).await;
    assert_eq!(held.end().await.unwrap(), 1);
    site.until_state("k", State::Succeeded).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    assert_eq!(site.runs.of("k"), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_whose_record_was_deleted_writes_nothing() {
    let site = Site::start().await;
    let process = site.process().await;
    let failing = process.op("k").run(async {
        site.runs.record("k");
        site.command(&["DEL", &name("k")]).await;
        Err::<usize, _>(OwnError::new("own"))
    });
    assert_eq!(failing.await.unwrap_err().0, "own");
    assert_eq!(site.state("k").await, None);
    assert_eq!(process.run("k").await.unwrap(), 2);
    process.ends_clean().await;
}

#[cfg(feature = "metrics")]
#[test]
fn an_answer_whose_record_had_vanished_is_counted() {
    use idempotent_runtime::observe::names;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // One thread: what the test's thread counts is counted by its own recorder.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let site = Site::start().await;
            let process = site.process_with(Duration::from_secs(30), strong()).await;
            let forgetful = process.op("k").run(async {
                site.command(&["FLUSHALL"]).await;
                Ok::<_, OwnError>(site.runs.record("k"))
            });
            assert_eq!(forgetful.await.unwrap(), 1);
            assert_eq!(process.run("k").await.unwrap(), 1);
        });
    });
    let counters = snapshotter.snapshot().into_vec();
    let vanished = counters.iter().find(|(key, ..)| key.key().name() == names::VANISHED);
    assert!(matches!(vanished, Some((.., DebugValue::Counter(1)))), "{vanished:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_what_is_new_and_finishes_what_runs() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let config = strong().with_lease(RENEWED_SOON);
        let process = site.process_with(Duration::from_secs(30), config).await;
        assert_eq!(process.run("done").await.unwrap(), 1);
        let held = process.hold("running").await;
        let Begin::Fresh(failing) = process.op("failing").begin().await.unwrap() else { panic!() };
        let dropped = process.hold("dropped").await;

        site.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
        let error = process.run("new").await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreFull, false), "{error}");
        assert_eq!((site.runs.of("new"), site.state("new").await), (0, None));
        assert_eq!(process.run("done").await.unwrap(), 1, "an answer is replayed");
        site.until_renewed("running").await;
        assert!(!held.attempt.is_lost());
        assert_eq!(held.end().await.unwrap(), 1);
        assert_eq!(site.state("running").await, Some(State::Succeeded));
        assert_eq!(process.run("running").await.unwrap(), 1, "its value was kept");
        failing.fail().await.unwrap();
        assert_eq!(site.state("failing").await, Some(State::FailedFree));
        dropped.drop_call().await;
        site.until_state("dropped", State::FailedFree).await;

        site.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
        assert_eq!(process.run("new").await.unwrap(), 1);
        assert_eq!(process.run("dropped").await.unwrap(), 2);
        for key in ["done", "running", "new"] {
            assert_eq!(site.runs.of(key), 1, "{key}");
        }
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_server_a_vanished_record_is_written_again() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let process = site.process_with(Duration::from_secs(30), strong()).await;
        let held = process.hold("k").await;
        site.command(&["DEL", &name("k")]).await;
        site.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
        assert_eq!(held.end().await.unwrap(), 1);
        assert_eq!(site.state("k").await, Some(State::Succeeded), "{}", binary.display());
        assert_eq!(process.run("k").await.unwrap(), 1);
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_can_be_flushed_at_any_point() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let flush = async || drop(site.command(&["SCRIPT", "FLUSH"]).await);
        let config = strong().with_lease(RENEWED_SOON).with_retry_interval(Duration::from_secs(30));
        let process = site.process_with(Duration::from_secs(30), config.clone()).await;
        let other = site.process_with(Duration::from_secs(30), config).await;
        flush().await;
        let held = process.hold("k").await;
        let renew = Message::Renew.about(&name("k"));
        flush().await;
        until(|| process.proxy.answered(&renew) >= 2).await;
        assert!(!held.attempt.is_lost());
        flush().await;
        // Marked by a script, too.
        let waiting = other.spawn("k");
        let record = async || site.bytes("k").await.unwrap();
        support::until_async(async || record().await[2] == 1).await;
        flush().await;
        assert_eq!(held.end().await.unwrap(), 1);
        assert_eq!(waiting.await.unwrap().unwrap(), 1);
        flush().await;
        assert_eq!(process.run("k").await.unwrap(), 1);
        let dropped = process.hold("dropped").await;
        flush().await;
        dropped.drop_call().await;
        site.until_state("dropped", State::FailedFree).await;
        flush().await;
        assert_eq!(other.run("dropped").await.unwrap(), 2);
        assert_eq!(site.runs.of("k"), 1);
        process.ends_clean().await;
        other.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_evicts_is_refused_unless_that_is_asked_for() {
    let site = Site::start().await;
    let url = site.server.url();
    for policy in ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"] {
        site.command(&["CONFIG", "SET", "maxmemory-policy", policy]).await;
        let error = RedisStore::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        let text = error.to_string();
        assert!(text.contains(policy) && text.contains("help: CONFIG SET"), "{text}");
        RedisStore::builder(&url).allow_eviction().connect().await.unwrap();
    }
    site.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    let process = site.process().await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    process.ends_clean().await;
}
