//! A process on a SQLite file. The tests in `tests/sqlite` start it, and kill it at any time.
#![allow(clippy::print_stdout)]

#[path = "../orders.rs"]
mod orders;

use idempotent_runtime::Abandon;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{BeginRequest, StoreExt as _};
use idempotent_runtime::store::{Claim, Token};
use idempotent_sql::SqliteStore;
use orders::SqliteOrders;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use support::work::carry_out;
use support::worker::{Reach, end_with_whoever_started_this};
use tokio::task::JoinSet;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let orders = std::env::args().nth(1).expect("the orders are the only argument");
    end_with_whoever_started_this();
    match serde_json::from_str(&orders).expect("the orders are JSON") {
        SqliteOrders::Calls(orders) => {
            let Reach::Url(path) = orders.reach.clone() else { panic!("a path") };
            carry_out(*orders, async { Arc::new(open(path)) as _ }).await
        }
        SqliteOrders::Begin { path, name, callers } => {
            let store = open(path);
            println!("up");
            let mut tasks = JoinSet::new();
            for caller in 0..callers {
                tasks.spawn(begin(store.clone(), name.clone(), caller));
            }
            tasks.join_all().await;
            ExitCode::SUCCESS
        }
        SqliteOrders::Fill { path } => {
            let store = open(path);
            for number in 0.. {
                let key = RecordKey::from(&*format!("shop|orders.create|{number}"));
                if let Err(error) = store.begin(&key, &asking(number)).await {
                    println!(
                        "{number} {:?} {} {error:?}",
                        error.kind(),
                        error.may_have_taken_effect()
                    );
                    break;
                }
            }
            ExitCode::SUCCESS
        }
        SqliteOrders::Open { path } => {
            match SqliteStore::open(path) {
                Ok(_) => println!("opened"),
                Err(error) => println!("{:?} {error:?}", error.kind()),
            }
            ExitCode::SUCCESS
        }
    }
}

fn open(path: impl AsRef<std::path::Path>) -> SqliteStore {
    SqliteStore::open(path).unwrap_or_else(|error| panic!("{error}"))
}

fn asking(number: u64) -> BeginRequest {
    let (lease, linger) = (Duration::from_secs(60), Duration::from_secs(3_600));
    let claim = Claim::Lease { lease, linger, abandon: Abandon::Retry };
    BeginRequest { token: Token::random(), fingerprint: None, fence_seed: number, claim }
}

async fn begin(store: SqliteStore, name: String, caller: usize) {
    for number in 0.. {
        let key = RecordKey::from(&*format!("begin|{name}|{caller}-{number}"));
        let begun = store.begin(&key, &asking(number)).await;
        begun.unwrap_or_else(|error| panic!("{error}"));
    }
}
