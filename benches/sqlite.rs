//! Cost of the SQLite store, as a ratio to plain statements in the same run, on a file beside it: on the
//! same one, the store would leave gaps for the connections of the floor.
//!
//! `cargo bench -p idempotent-sql-tests --bench sqlite`. Floor and store alternate in short rounds, so
//! that both see the same machine; a figure is the median over the rounds, with the lowest and the
//! highest round behind it. The floor of a first execution is an `INSERT` and an `UPDATE`, each
//! committed by itself with the same `synchronous`; that of a replay is a `SELECT` by key of what a
//! replay has to know: state, fingerprint, response and time. Each caller of a floor has a thread and a
//! connection of its own, and asks for the lock as the store does.
#![allow(missing_docs, clippy::print_stdout)]

use idempotent_runtime::Abandon;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{BeginRequest, Begun, IfGone, StoreExt as _, Updated};
use idempotent_runtime::store::{Claim, Store as _, Token, Value};
use idempotent_sql::SqliteStore;
use rusqlite::Connection;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::redis::TempDirectory;
use tokio::runtime::Runtime;

const ROUNDS: usize = 11;
const WRITES: u64 = 400;
const READS: u64 = 20_000;
const HOUR: Duration = Duration::from_secs(3_600);
const BODY: &[u8] = br#"{"id":1,"item":"a lamp of 64 bytes","cents":1299,"currency":"EUR"}"#;

static NEXT: AtomicU64 = AtomicU64::new(0);

fn key(id: u64) -> String {
    format!("shop|orders.create|{id}")
}

/// The naive way: a row that says that somebody works, then the answer.
struct Naive(Connection);

impl Naive {
    fn open(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                 CREATE TABLE IF NOT EXISTS naive (key TEXT PRIMARY KEY, state TEXT, \
                 fingerprint BLOB, response BLOB, expires_at INTEGER)",
            )
            .unwrap();
        Self(connection)
    }

    fn write(&self, text: &str, params: impl rusqlite::Params + Clone) {
        let mut statement = self.0.prepare_cached(text).unwrap();
        while let Err(error) = statement.execute(params.clone()) {
            let code = error.sqlite_error_code();
            assert_eq!(code, Some(rusqlite::ErrorCode::DatabaseBusy), "{error}");
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    fn execute(&self, id: u64) {
        let key = key(id);
        self.write("INSERT INTO naive VALUES (?1, 'processing', NULL, NULL, 0)", (&key,));
        let update = "UPDATE naive SET state = 'succeeded', response = ?2, expires_at = 1 \
                      WHERE key = ?1 AND state = 'processing'";
        self.write(update, (&key, BODY));
    }

    fn select(&self, id: u64) -> (String, Option<Vec<u8>>, Vec<u8>, i64) {
        let text = "SELECT state, fingerprint, response, expires_at FROM naive WHERE key = ?1";
        let mut statement = self.0.prepare_cached(text).unwrap();
        let found = statement
            .query_row([key(id)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
        found.unwrap()
    }
}

fn asking() -> BeginRequest {
    let claim =
        Claim::Lease { lease: Duration::from_secs(30), linger: HOUR, abandon: Abandon::Retry };
    BeginRequest { token: Token::random(), fingerprint: None, fence_seed: 1, claim }
}

async fn execute(store: &SqliteStore, id: u64) {
    let key = RecordKey::from(&*key(id));
    let Begun::Fresh(attempt) = store.begin(&key, &asking()).await.unwrap() else {
        panic!("an unused key")
    };
    let value = Some(Value::from(BODY));
    let done = store.complete(&key, &attempt, value, HOUR, IfGone::Rewrite).await.unwrap();
    assert_eq!(done, Updated::Done);
}

async fn replay(store: &SqliteStore, id: u64) {
    let key = RecordKey::from(&*key(id));
    let told = store.begin(&key, &asking()).await.unwrap();
    assert!(matches!(black_box(told), Begun::Succeeded { value: Some(_), .. }));
}

/// Time of `calls` by so many callers with the naive way.
fn naive(path: &Path, callers: u64, first: u64, calls: u64) -> Duration {
    let connections: Vec<_> = (0..callers).map(|_| Naive::open(path)).collect();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for (caller, naive) in (0..).zip(connections) {
            let ids = first + caller * calls / callers..first + (caller + 1) * calls / callers;
            scope.spawn(move || ids.for_each(|id| naive.execute(id)));
        }
    });
    started.elapsed()
}

/// The same with the store.
fn store(runtime: &Runtime, store: &SqliteStore, callers: u64, first: u64, calls: u64) -> Duration {
    let started = Instant::now();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..callers)
            .map(|caller| {
                let ids = first + caller * calls / callers..first + (caller + 1) * calls / callers;
                let store = store.clone();
                tokio::spawn(async move {
                    for id in ids {
                        execute(&store, id).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    started.elapsed()
}

/// A figure of each round, and how they are spread.
fn spread(mut rounds: Vec<f64>) -> String {
    rounds.sort_by(f64::total_cmp);
    let middle = rounds[rounds.len() / 2];
    format!("{middle:.2} ({:.2} to {:.2})", rounds[0], rounds[rounds.len() - 1])
}

fn per_second(calls: u64, mut times: Vec<Duration>) -> f64 {
    times.sort();
    calls as f64 / times[times.len() / 2].as_secs_f64()
}

fn report(name: &str, calls: u64, pairs: &[(Duration, Duration)]) {
    let ratios = pairs.iter().map(|(floor, store)| floor.as_secs_f64() / store.as_secs_f64());
    println!(
        "  {name:<34} floor {:>9.0}/s   store {:>9.0}/s   ratio {}",
        per_second(calls, pairs.iter().map(|pair| pair.0).collect()),
        per_second(calls, pairs.iter().map(|pair| pair.1).collect()),
        spread(ratios.collect()),
    );
}

fn main() {
    let directory = TempDirectory::new();
    let path = directory.path().join("records.db");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let records = SqliteStore::open(&path).unwrap();
    let floor_path = directory.path().join("naive.db");
    let plain = Naive::open(&floor_path);
    let [mut one, mut many, mut replays] = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let first = NEXT.fetch_add(20 * WRITES, Relaxed);
        let floor = naive(&floor_path, 1, first, WRITES);
        one.push((floor, store(&runtime, &records, 1, first, WRITES)));
        let more = first + WRITES;
        let floor = naive(&floor_path, 16, more, 4 * WRITES);
        many.push((floor, store(&runtime, &records, 16, more, 4 * WRITES)));

        let ids = || (0..READS).map(|call| first + call % WRITES);
        let started = Instant::now();
        ids().for_each(|id| drop(black_box(plain.select(id))));
        let floor = started.elapsed();
        let started = Instant::now();
        runtime.block_on(async {
            for id in ids() {
                replay(&records, id).await;
            }
        });
        replays.push((floor, started.elapsed()));
    }
    println!("begin and complete, synchronous = FULL; replay; calls a second, medians of {ROUNDS}");
    report("begin and complete, 1 caller", WRITES, &one);
    report("begin and complete, 16 callers", 4 * WRITES, &many);
    report("replay, 1 caller", READS, &replays);
    let gains = one
        .iter()
        .zip(&many)
        .map(|((_, one), (_, many))| 4.0 * one.as_secs_f64() / many.as_secs_f64());
    println!("  {:<34} {}", "16 callers against 1, store", spread(gains.collect()));
    runtime.block_on(async { records.maintain().await });
    println!("  {:?}", records.usage());
}
