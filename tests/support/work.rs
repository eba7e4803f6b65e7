//! The work of worker processes: calls on a store, until they are done or told to end.

use crate::calls::{Caller, Told, until_exists};
use crate::journal::{Journal, What};
use crate::kind::Kind;
use crate::plan::{Plan, Zipf};
use crate::worker::{Orders, Work, nth};
use idempotent_runtime::ErrorKind;
use idempotent_runtime::instance::Drained;
use idempotent_runtime::store::Store;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// Works as ordered, once there is a store, and returns when there is nothing left to do. A request
/// to terminate drains and ends the process.
pub async fn carry_out(orders: Orders, store: impl Future<Output = Arc<dyn Store>>) -> ExitCode {
    let mut told_to_end = signal(SignalKind::terminate()).expect("signals can be heard");
    let journal = Journal::open(&orders.journal, orders.process);
    let caller = Caller::new(store.await, &orders.terms, journal);
    caller.journal.note(What::Up);
    if let Some(path) = &orders.begin_when {
        until_exists(path).await;
    }
    let mut tasks = JoinSet::new();
    for task in 0..orders.tasks {
        let rng = StdRng::seed_from_u64(orders.seed.wrapping_add(task as u64));
        tasks.spawn(work(caller.clone(), orders.clone(), rng));
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
    #[expect(clippy::exit, reason = "bodies that hang would keep the runtime")]
    std::process::exit(0)
}

async fn work(caller: Caller, orders: Orders, mut rng: StdRng) {
    match &orders.work {
        Work::Answers { keys } => {
            let mut keys = keys.clone();
            keys.shuffle(&mut rng);
            for key in keys {
                if !answer(&caller, &orders, &key, &mut rng).await {
                    return;
                }
            }
        }
        Work::Endless { ranks, generation } => {
            let zipf = Zipf::new(*ranks);
            loop {
                let key = format!("{}-{}", nth(*generation), zipf.draw(&mut rng));
                let told = caller.call(&key, plan(&orders, &mut rng)).await;
                if told == Told::Refused(ErrorKind::ShuttingDown) {
                    return;
                }
                rest(&mut rng).await;
            }
        }
        Work::Mixed { ranks, generation } => {
            let zipf = Zipf::new(*ranks);
            loop {
                let kind = Kind::ALL[rng.random_range(0..Kind::ALL.len())];
                let count = if kind == Kind::Batch { rng.random_range(1..=4) } else { 1 };
                let drawn: BTreeSet<_> = (0..count).map(|_| zipf.draw(&mut rng)).collect();
                let generation = nth(*generation);
                let key = |rank| kind.key(format_args!("{generation}-{rank}"));
                let keys: Vec<String> = drawn.into_iter().map(key).collect();
                let plan = plan(&orders, &mut rng);
                let told = match &keys[..] {
                    [key] if kind != Kind::Batch => vec![caller.call(key, plan).await],
                    keys => caller.call_batch(keys, plan).await,
                };
                if told.contains(&Told::Refused(ErrorKind::ShuttingDown)) {
                    return;
                }
                rest(&mut rng).await;
            }
        }
    }
}

async fn rest(rng: &mut StdRng) {
    let pause = rng.random_range(0..120);
    tokio::time::sleep(Duration::from_millis(pause)).await;
}

/// Calls until there is an answer for good. `false` if there is to be none.
async fn answer(caller: &Caller, orders: &Orders, key: &str, rng: &mut StdRng) -> bool {
    loop {
        match caller.call(key, plan(orders, rng)).await {
            Told::Value(_) | Told::Refused(ErrorKind::Indeterminate | ErrorKind::Duplicate) => {
                return true;
            }
            Told::Refused(ErrorKind::ShuttingDown) => return false,
            Told::OwnError | Told::Gone => {}
            Told::Refused(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

fn plan(orders: &Orders, rng: &mut StdRng) -> Plan {
    let plan = orders.mix.draw(rng);
    Plan { until: orders.end_when.clone(), ..plan }
}
