//! A process that makes idempotent calls as it is told, writes down what happens, and may be killed
//! at any time. The tests in `tests/redis` and `redis-soak` start it.

use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Drained, ErrorKind};
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::calls::{Caller, Told, until_exists};
use support::journal::{Journal, What};
use support::plan::{Plan, Zipf};
use support::worker::{Orders, Work, end_with_whoever_started_this};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let orders = std::env::args().nth(1).expect("the orders are the only argument");
    let orders: Orders = serde_json::from_str(&orders).expect("the orders are JSON");
    end_with_whoever_started_this();
    let mut told_to_end = signal(SignalKind::terminate()).expect("signals can be heard");
    let journal = Journal::open(&orders.journal, orders.process);
    let store = Arc::new(connect(&orders.url).await);
    let caller = Caller::new(store, &orders.terms, journal);
    caller.journal.note(What::Up);
    if let Some(path) = &orders.begin_when {
        until_exists(path).await;
    }
    let mut tasks = JoinSet::new();
    for _ in 0..orders.tasks {
        tasks.spawn(work(caller.clone(), orders.clone()));
    }
    let finished = async {
        while let Some(ended) = tasks.join_next().await {
            ended.expect("a task does not panic, only its calls do");
        }
    };
    tokio::select! {
        () = finished => return ExitCode::SUCCESS,
        _ = told_to_end.recv() => {}
    }
    caller.journal.note(What::ToldToEnd);
    let drained = caller.idem.shutdown(Duration::from_millis(orders.grace)).await;
    if drained == Drained::All {
        // What they were told may not be written down yet.
        while tasks.join_next().await.is_some() {}
    }
    caller.journal.note(What::Drained { all: drained == Drained::All });
    // Bodies that hang would keep the runtime.
    std::process::exit(0)
}

/// Connects, also to a server that is being restarted.
async fn connect(url: &str) -> RedisStore {
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        match RedisStore::connect(url).await {
            Ok(store) => return store,
            Err(error) if Instant::now() > give_up => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn work(caller: Caller, orders: Orders) {
    match &orders.work {
        Work::Answers { keys } => {
            let mut keys = keys.clone();
            keys.shuffle(&mut rand::rng());
            for key in keys {
                if !answer(&caller, &orders, &key).await {
                    return;
                }
            }
        }
        Work::Endless { ranks, generation } => {
            let zipf = Zipf::new(*ranks);
            loop {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                let generation = since.as_millis() / u128::from(*generation);
                let key = format!("{generation}-{}", zipf.draw(&mut rand::rng()));
                if caller.call(&key, plan(&orders)).await == Told::Refused(ErrorKind::ShuttingDown)
                {
                    return;
                }
                let pause = rand::rng().random_range(0..120);
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        }
    }
}

/// Calls until there is an answer for good. `false` if there is to be none.
async fn answer(caller: &Caller, orders: &Orders, key: &str) -> bool {
    loop {
        match caller.call(key, plan(orders)).await {
            Told::Value(_) | Told::Refused(ErrorKind::Indeterminate) => return true,
            Told::Refused(ErrorKind::ShuttingDown) => return false,
            Told::OwnError | Told::Gone => {}
            Told::Refused(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

fn plan(orders: &Orders) -> Plan {
    let plan = orders.mix.draw(&mut rand::rng());
    Plan { until: orders.end_when.clone(), ..plan }
}
