//! Recorded runs of many tasks: what they did and saw is checked as a whole. The same run on stores
//! that break the rules shows that the check would see it.
#![allow(clippy::print_stdout)]

mod broken;

use self::broken::{BrokenStore, Rule};
use idempotent_runtime::store::{RedisStore, Store};
use idempotent_runtime::{Abandon, ErrorKind};
use rand::seq::SliceRandom as _;
use std::sync::Arc;
use std::time::Duration;
use support::calls::{Caller, Terms, Told};
use support::history::{Broken, History, Report};
use support::journal::{Journal, Reader};
use support::plan::{Mix, Plan};
use support::redis::{RedisServer, TempDirectory};
use tokio::task::JoinSet;

const KEYS: usize = 32;
const TASKS: usize = 12;

/// A bit of everything.
const MIX: Mix = Mix {
    errors: 450,
    panics: 60,
    cancels: 100,
    some: 300,
    some_millis: 250,
    long: 300,
    long_millis: 700,
};
/// Most bodies outlast their lease and then fail, while others run.
const FAILING_LATE: Mix = Mix { errors: 750, panics: 0, cancels: 0, long: 750, some: 200, ..MIX };

/// Two instances on one server, and tasks that call the same keys: bodies that fail, panic, are
/// dropped, or outlast a lease that is not renewed. In the end everybody asks once more.
async fn run(wrap: impl Fn(RedisStore) -> Arc<dyn Store>, abandon: Abandon, mix: &Mix) -> Report {
    let server = RedisServer::start();
    let directory = TempDirectory::new();
    let path = directory.path().join("journal");
    let terms = Terms { lease: 300, max_run: 300, ..Terms::new("history", abandon) };
    let mut callers = Vec::new();
    for process in 1..=2 {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        callers.push(Caller::new(wrap(store), &terms, Journal::open(&path, process)));
    }
    let mut tasks = JoinSet::new();
    for caller in callers.iter().cycle().take(2 * TASKS) {
        tasks.spawn(call_all(caller.clone(), mix.clone()));
    }
    tasks.join_all().await;
    for caller in &callers {
        caller.idem.shutdown(Duration::from_secs(60)).await;
    }
    let mut history = History::new(&terms);
    history.add(Reader::open(&path).read());
    history.check_all()
}

async fn call_all(caller: Caller, mix: Mix) {
    let mut keys: Vec<String> = (0..KEYS).map(|key| format!("k{key}")).collect();
    keys.shuffle(&mut rand::rng());
    for key in &keys {
        let plan = mix.draw(&mut rand::rng());
        caller.call(key, plan).await;
    }
    for key in &keys {
        while !is_final(&caller.call(key, Plan::default()).await) {}
    }
}

/// Whether asking again makes no difference.
fn is_final(told: &Told) -> bool {
    matches!(told, Told::Value(_) | Told::Refused(ErrorKind::Indeterminate))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_with_errors_panics_and_cancellations_keeps_every_promise() {
    let report = run(|store| Arc::new(store), Abandon::Retry, &MIX).await;
    println!("retry: {:#?}", report.counts);
    report.assert_kept();
    assert_eq!(report.counts.succeeded, KEYS);
    // Otherwise the run did not see what it is for.
    assert!(report.counts.lost > 0 && report.counts.own_errors > 0 && report.counts.gone > 0);
    assert!(report.counts.refusals["Superseded"] > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_with_blocked_keys_keeps_every_promise() {
    let report = run(|store| Arc::new(store), Abandon::Block, &MIX).await;
    println!("block: {:#?}", report.counts);
    report.assert_kept();
    assert!(report.counts.succeeded > 0 && report.counts.refusals["Indeterminate"] > 0);
}

/// Runs on a store that breaks a rule, and expects to see that.
async fn is_seen(rule: Rule, mix: &Mix, expected: &[Broken]) {
    // A run is random, and the moment that shows it comes in about every other one.
    for _ in 0..20 {
        let broken = |store| Arc::new(BrokenStore::new(store, rule)) as Arc<dyn Store>;
        let report = run(broken, Abandon::Retry, mix).await;
        println!("{rule:?}: {:?}", report.violations.first());
        if expected.iter().all(|broken| report.broken(*broken)) {
            return;
        }
    }
    panic!("a store breaks the rule {rule:?} and nobody sees it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_completes_for_anybody_is_seen() {
    is_seen(Rule::CompleteComparesTokens, &MIX, &[Broken::SecondValue]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_frees_for_anybody_is_seen() {
    is_seen(Rule::FailComparesTokens, &FAILING_LATE, &[Broken::StartWhileHeld]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_forgets_answers_is_seen() {
    is_seen(Rule::AnswersAreKept, &MIX, &[Broken::StartAfterSuccess, Broken::SecondValue]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_grants_a_key_that_is_held_is_seen() {
    is_seen(Rule::OneHolds, &MIX, &[Broken::StartWhileHeld]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_whose_fences_stand_still_is_seen() {
    is_seen(Rule::FencesGrow, &MIX, &[Broken::FenceDidNotGrow]).await;
}
