//! Metrics and traces: every call ends in exactly one outcome, and no key or value is shown.
#![allow(missing_docs)]

use idempotent_runtime::observe::{Ending, names};
use idempotent_runtime::store::{MemoryOptions, MemoryStore, StoreErrorKind};
use idempotent_runtime::testing::{Fault, FaultStore, ManualClock, Verb};
use idempotent_runtime::{
    AnswerPolicy, Begin, Error, Fingerprint, Idempotency, Mode, OnStoreError, ReplayCache,
};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::collections::BTreeMap;
use std::time::Duration;
use support::{
    Bench, EXPIRE, LEASE, OwnError, poll_at_most, remote, strong, until, while_time_passes,
};

type Counts = BTreeMap<String, u64>;

/// The values that a metric has had, by its labels. A gauge counts as what it was set to, a histogram
/// as the number of its values.
struct Seen {
    snapshotter: Snapshotter,
    values: BTreeMap<(String, Vec<String>), f64>,
}

impl Seen {
    fn new(snapshotter: Snapshotter) -> Self {
        Self { snapshotter, values: BTreeMap::new() }
    }

    /// The value of a metric with these labels, 0 if it has none.
    fn value(&mut self, name: &str, labels: &[&str]) -> f64 {
        // A snapshot sets everything to 0.
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let labels = key.key().labels().map(|label| label.value().to_owned()).collect();
            let known = self.values.entry((key.key().name().to_owned(), labels)).or_default();
            *known += match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(set) if set.into_inner() > 0.0 => set.into_inner() - *known,
                DebugValue::Gauge(_) => 0.0,
                DebugValue::Histogram(values) => values.len() as f64,
            };
        }
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.values.get(&(name.to_owned(), labels)).copied().unwrap_or_default()
    }
}

/// Counts of each outcome since the last call.
fn outcomes(snapshotter: &Snapshotter) -> Counts {
    let mut counts = Counts::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        if key.key().name() != names::CALLS {
            continue;
        }
        let DebugValue::Counter(count) = value else { panic!("not a counter") };
        let outcome = key.key().labels().find(|label| label.key() == names::OUTCOME).unwrap();
        *counts.entry(outcome.value().to_owned()).or_default() += count;
    }
    counts.retain(|_, count| *count > 0);
    counts
}

async fn call(bench: &Bench, key: &'static str) -> Result<u8, Error> {
    bench.idem.operation("o").key(key).run(async { Ok(1) }).await
}

#[test]
fn every_call_ends_in_exactly_one_outcome() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let bench = remote();
            let ends = |ending: Ending| {
                let counts = outcomes(&snapshotter);
                assert_eq!(counts, Counts::from([(ending.as_str().to_owned(), 1)]));
            };
            call(&bench, "k").await.unwrap();
            ends(Ending::Executed);
            call(&bench, "k").await.unwrap();
            ends(Ending::Replayed);
            let op = || bench.idem.operation("o");
            let ok = || async { Ok::<u8, Error>(1) };
            op().key("k").mode(Mode::Reject).run(ok()).await.unwrap_err();
            ends(Ending::Rejected);
            op().key("f").run(async { Err::<u8, _>(OwnError::new("no")) }).await.unwrap_err();
            ends(Ending::Failed);
            op().key("").run(ok()).await.unwrap_err();
            ends(Ending::Invalid);
            op().run(ok()).await.unwrap_err();
            ends(Ending::Invalid);
            let payload = |text: &str| op().key("p").fingerprint(Fingerprint::of(text));
            payload("one").run(ok()).await.unwrap();
            ends(Ending::Executed);
            payload("two").run(ok()).await.unwrap_err();
            ends(Ending::Mismatch);
            op().key("k").run(async { Ok::<String, Error>(String::new()) }).await.unwrap_err();
            ends(Ending::Unreadable);
            let pending = op().key("c").run(std::future::pending::<Result<u8, Error>>());
            assert!(poll_at_most(20, pending).await.is_none());
            ends(Ending::Cancelled);

            let held = op().key("h").begin().await.unwrap();
            op().key("h").mode(Mode::Reject).run(ok()).await.unwrap_err();
            ends(Ending::InProgress);
            op().key("h").forget(true).await.unwrap();
            let idempotent_runtime::Begin::Fresh(attempt) = held else { panic!() };
            attempt.complete(&1).await.unwrap_err();
            ends(Ending::Superseded);

            bench.store.fault_always(Verb::Begin, Fault::Before(StoreErrorKind::Full));
            op().key("s").run(ok()).await.unwrap_err();
            ends(Ending::Refused);
            op().key("s").on_store_error(OnStoreError::Run).run(ok()).await.unwrap();
            ends(Ending::Unprotected);
            bench.store.all_up();

            let off = idempotent_runtime::Idempotency::builder().disabled().build().unwrap();
            let off = || off.operation("o").key("d");
            off().run(ok()).await.unwrap();
            ends(Ending::Unprotected);
            off().run_detached(AnswerPolicy::kept(), ok()).await.unwrap();
            ends(Ending::Unprotected);
            off().run_batch([(1, ())], |_| async { vec![Ok::<u8, Error>(1)] }).await;
            ends(Ending::Unprotected);
            let idempotent_runtime::Begin::Fresh(attempt) = off().begin().await.unwrap() else {
                panic!()
            };
            attempt.complete(&1).await.unwrap();
            ends(Ending::Unprotected);
            drop(off().begin().await.unwrap());
            ends(Ending::Unprotected);

            let blocked = || op().key("b").abandon(idempotent_runtime::Abandon::Block);
            let pending = blocked().run(std::future::pending::<Result<u8, Error>>());
            assert!(poll_at_most(20, pending).await.is_none());
            ends(Ending::Cancelled);
            until(|| bench.idem.in_flight() == 0).await;
            blocked().run(ok()).await.unwrap_err();
            ends(Ending::Indeterminate);
        });
        let bench = remote();
        let panicking = std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async {
                let body = async { panic!("boom") };
                bench.idem.operation("o").key(1).run::<u8, Error, _>(body).await
            })
        });
        assert!(std::panic::catch_unwind(panicking).is_err());
        let panicked = (Ending::Panicked.as_str().to_owned(), 1);
        assert_eq!(outcomes(&snapshotter), Counts::from([panicked]));
    });
}

#[test]
fn rare_events_and_times_are_measured() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let bench = remote();
            bench.store.fault_at(Verb::Complete, 1, Fault::Before(StoreErrorKind::Unavailable));
            call(&bench, "k").await.unwrap();
            bench.idem.reconfigure(support::strong().with_max_value_bytes(1)).unwrap();
            call(&bench, "large").await.unwrap();
            let waiting = bench.idem.operation("o").key("w").begin().await.unwrap();
            let answers = AnswerPolicy::<u8, Error>::kept();
            let waiter = bench.idem.operation("o").key("w").run_as(answers, async { Ok(1) });
            assert!(poll_at_most(50, waiter).await.is_none());
            drop(waiting);
            let bench = remote();
            bench.store.fault_at(Verb::Complete, 1, Fault::Before(StoreErrorKind::Undecodable));
            call(&bench, "given up").await.unwrap();
            let held = bench.idem.operation("o").key("t").begin().await.unwrap();
            let duplicate = || bench.idem.operation("o").key("t");
            let ok = || async { Ok::<u8, Error>(1) };
            duplicate().mode(Mode::Reject).run(ok()).await.unwrap_err();
            let waits = duplicate().wait(Duration::from_millis(50)).run(ok());
            while_time_passes(|time| bench.clock.advance(time), waits).await.unwrap_err();
            drop(held);
        });
    });
    let mut counted = Seen::new(snapshotter);
    assert_eq!(counted.value(names::WAIT_TIMEOUTS, &["o"]), 1.0, "one of two has waited");
    assert_eq!(counted.value(names::STORE_ERRORS, &["complete", "unavailable"]), 1.0);
    assert_eq!(counted.value(names::STORE_ERRORS, &["complete", "undecodable"]), 1.0);
    let seen: Vec<&str> = counted.values.keys().map(|(name, _)| &**name).collect();
    for name in [
        names::UNRECORDED,
        names::DROPPED,
        names::NOT_KEPT,
        names::STORE_SECONDS,
        names::BODY_SECONDS,
        names::WAIT_SECONDS,
        names::IN_FLIGHT,
    ] {
        assert!(seen.contains(&name), "{name} is missing in {seen:?}");
    }
}

#[test]
fn looks_at_the_replay_cache_are_counted_by_their_result() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(recorder.snapshotter());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let store = FaultStore::new(MemoryStore::new()).telling();
            let builder = Idempotency::builder().store(store).config(strong());
            let idem = builder.replay_cache(ReplayCache::new()).build().unwrap();
            // Off until the store listens; a first call of another key; two repeats.
            for key in ["a", "b", "a", "b"] {
                let call = idem.operation("o").key(key).run(async { Ok::<u8, Error>(1) });
                call.await.unwrap();
            }
        });
    });
    let looks =
        ["off", "miss", "hit"].map(|it| seen.value(names::REPLAY_CACHE_LOOKUPS, &["o", it]));
    assert_eq!(looks, [1.0, 1.0, 2.0]);
    assert_eq!(seen.value(names::CALLS, &["o", "replayed"]), 2.0);
}

/// The keeper has a thread of its own, so its metrics go to the recorder of the whole process.
#[tokio::test]
async fn leases_and_cleanups_are_measured() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(recorder.snapshotter());
    recorder.install().unwrap();
    let clock = ManualClock::new();
    let options = MemoryOptions::new().clock(clock.clock()).max_entries(1_234).max_bytes(56_789);
    let store = FaultStore::new(MemoryStore::with(options));
    let builder = Idempotency::builder().store(store.clone()).clock(clock.clock());
    let idem = builder.config(strong()).build().unwrap();
    let kept = |key: &'static str| idem.operation("kept").key(key);
    kept("expires").run(async { Ok::<u8, Error>(1) }).await.unwrap();
    let Begin::Fresh(attempt) = kept("held").begin().await.unwrap() else { panic!("it is new") };

    clock.advance(LEASE / 3);
    until(|| seen.value(names::RENEWALS, &["kept"]) == 1.0).await;
    assert_eq!(seen.value(names::LEASES_LOST, &["kept"]), 0.0);
    store.down(Verb::Renew);
    clock.advance(LEASE / 3);
    until(|| seen.value(names::STORE_ERRORS, &["renew", "unavailable"]) >= 1.0).await;
    clock.advance(LEASE);
    until(|| seen.value(names::LEASES_LOST, &["kept"]) == 1.0).await;
    drop(attempt);

    clock.advance(EXPIRE);
    until(|| seen.value(names::EXPIRED, &[]) >= 1.0).await;
    assert!(seen.value(names::CLEANUP_SECONDS, &[]) >= 1.0);
    assert_eq!(seen.value(names::CLEANUP_BEHIND, &[]), 0.0);
    assert_eq!(seen.value(names::STORE_MAX_ENTRIES, &[]), 1_234.0);
    assert_eq!(seen.value(names::STORE_MAX_BYTES, &[]), 56_789.0);
}

#[tokio::test]
async fn errors_show_neither_key_nor_value_unless_told_to() {
    let bench = remote();
    call(&bench, "secret-key").await.unwrap();
    let refused = bench.idem.operation("o").key("secret-key").mode(Mode::Reject);
    let error = refused.clone().run(async { Ok::<u8, Error>(1) }).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret-key"));
    bench.idem.reconfigure(support::strong().with_log_keys(true)).unwrap();
    let error = refused.run(async { Ok::<u8, Error>(1) }).await.unwrap_err();
    assert!(error.to_string().contains("secret-key"));
}

#[test]
fn the_documented_defaults_are_the_defaults() {
    let config = idempotent_runtime::Config::new();
    assert_eq!(config.expire, Duration::from_secs(300));
    assert_eq!(config.wait, Duration::from_millis(300));
    assert_eq!(config.lease, Duration::from_secs(30));
    assert_eq!(config.max_run, Duration::from_secs(3_600));
    assert_eq!(config.key_prefix, "idempotent:token:");
    assert_eq!(config.block_retention, Duration::from_secs(7 * 24 * 3_600));
    assert_eq!(config.mode, Mode::Reject);
}
