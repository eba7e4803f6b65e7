//! A worker process that makes idempotent calls, writes a journal, and may be killed at any time.
//! The tests in `tests/redis` and `redis-soak` start it.

use idempotent_runtime::store::RedisStore;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::sentinel::MASTER;
use support::work::carry_out;
use support::worker::{Orders, Reach, end_with_whoever_started_this};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let orders = std::env::args().nth(1).expect("the orders are the only argument");
    let orders: Orders = serde_json::from_str(&orders).expect("the orders are JSON");
    end_with_whoever_started_this();
    let reach = orders.reach.clone();
    carry_out(orders, async move { Arc::new(connect(&reach).await) as _ }).await
}

/// Connects, also to a server that is being restarted.
async fn connect(reach: &Reach) -> RedisStore {
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        let builder = match reach {
            Reach::Url(url) => RedisStore::builder(url),
            Reach::Sentinels { urls, replicas } => {
                RedisStore::sentinel(MASTER, urls).replication(*replicas, Duration::from_secs(1))
            }
        };
        match builder.connect().await {
            Ok(store) => return store,
            Err(error) if Instant::now() > give_up => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
