//! Failovers under load, most of them planned. What each server executed is known from the server
//! itself, and how often each body ran from a ledger outside Redis.
//!
//! The sentinels keep their usual pace: a master that was replaced goes on taking writes for eight
//! seconds and more.

use idempotent_runtime::Idempotency;
use idempotent_runtime::store::RedisStore;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::load::{Finished, Keys, Load, config};
use support::monitor::Monitor;
use support::redis::{RedisServer, info, until_role};
use support::sentinel::{MASTER, Pace, Sentinels};
use support::{size, until, until_async};

/// Short, so that what is not answered is soon sent again.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Time within which a store leaves a master. It is told within milliseconds, and asks every
/// second; the rest is for a machine that is busy with other tests.
const LEAVES_WITHIN: Duration = Duration::from_secs(4);

/// Time for which nothing may be written after that. The old master takes writes for longer.
const LEFT_ALONE_FOR: Duration = Duration::from_secs(2);

/// Settings that keep writes from being lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protection {
    None,
    /// The store waits for all replicas.
    Replication,
    /// The servers take writes only while they have all replicas, and are paused for the failover.
    MinReplicas,
}

/// Outcome of a failover.
struct FailedOver {
    /// From the moment the first sentinel named another master to the last write to the old one;
    /// nothing if that was before.
    left_after: Duration,
    /// Number of bodies that ran twice.
    ran_again: usize,
    finished: Finished,
}

impl FailedOver {
    fn print(&self, round: usize) {
        let Self { left_after, ran_again, finished } = self;
        let (ran, keys) = finished.bodies();
        println!(
            "{round}: left after {left_after:?}, {ran_again} of {keys} ran again, {ran} bodies, \
             refused: {:?}",
            finished.refused()
        );
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

async fn instances(sentinels: &Sentinels, protection: Protection) -> Vec<Idempotency> {
    let mut instances = Vec::new();
    for _ in 0..2 {
        let mut builder = RedisStore::sentinel(MASTER, sentinels.urls()).timeout(TIMEOUT);
        if protection == Protection::Replication {
            builder = builder.replication(2, Duration::from_millis(100));
        }
        let store = builder.connect().await.unwrap();
        // Longer than a failover takes with which nothing is lost: no lease runs out meanwhile.
        let lease = match protection {
            Protection::None => Duration::from_secs(5),
            _ => Duration::from_secs(60),
        };
        let config = config().with_lease(lease);
        instances.push(Idempotency::builder().store(store).config(config).build().unwrap());
    }
    instances
}

/// Fails over from `old`, and back to a complete set-up.
async fn fail_over(
    sentinels: &Sentinels,
    old: usize,
    protection: Protection,
) -> (FailedOver, usize) {
    sentinels.pace(Pace::Usual).await;
    let server = &sentinels.servers[old];
    let load = Load::start(instances(sentinels, protection).await, Keys::Endless);
    load.until_answered(200).await;
    let monitor = Monitor::start(server).await;
    until(|| !monitor.written().is_empty()).await;

    let asked = now();
    if protection == Protection::MinReplicas {
        hold_writes(server).await;
    }
    sentinels.fail_over().await;
    sentinels.until_one_names_another(old).await;
    let named = now();
    until(|| now() > named + LEAVES_WITHIN + LEFT_ALONE_FOR).await;
    assert_eq!(info(server, "role").await, "master", "the old master was told too soon");

    let written = monitor.written();
    let last = written.last().unwrap().at;
    let left_after = last.saturating_sub(named);
    assert!(left_after < LEAVES_WITHIN, "the old master was written to for {left_after:?}");

    sentinels.pace(Pace::Impatient).await;
    let new = sentinels.until_failed_over(old).await;
    until_role(server, "slave").await;
    sentinels.until_complete(new).await;
    load.until_answered(200).await;
    let finished = load.finish().await;
    // What was forgotten is what the old master was told after the failover had begun.
    let again = finished.ran_again();
    for name in &again {
        let of_key = |executed: &&support::monitor::Executed| executed.key.as_ref() == Some(name);
        let last = written.iter().rev().find(of_key).map(|executed| executed.at);
        assert!(last.is_some_and(|last| last > asked), "{name} ran twice, written at {last:?}");
    }
    (FailedOver { left_after, ran_again: again.len(), finished }, new)
}

/// Has a server hold back writes, and waits until its replicas have those before.
async fn hold_writes(master: &RedisServer) {
    let mut connection = master.connection().await;
    let mut pause = redis::cmd("CLIENT");
    let () = pause.arg("PAUSE").arg(5_000).arg("WRITE").query_async(&mut connection).await.unwrap();
    until_async(|| async {
        let offset = info(master, "master_repl_offset").await;
        let has_all = |replica: String| replica.contains(&format!("offset={offset},"));
        has_all(info(master, "slave0").await) && has_all(info(master, "slave1").await)
    })
    .await;
}

async fn demand_replicas(sentinels: &Sentinels) {
    for server in &sentinels.servers {
        let mut connection = server.connection().await;
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("min-replicas-to-write").arg(2);
        let () = set.query_async(&mut connection).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_protection_only_what_is_written_before_the_store_leaves_runs_again() {
    let sentinels = Sentinels::start().await;
    let mut master = 0;
    for round in 0..size(1, 10) {
        let (result, new) = fail_over(&sentinels, master, Protection::None).await;
        result.print(round);
        result.finished.check_answers(2).await;
        master = new;
    }
}

async fn nothing_runs_again(protection: Protection) {
    let sentinels = Sentinels::start().await;
    if protection == Protection::MinReplicas {
        demand_replicas(&sentinels).await;
    }
    let mut master = 0;
    for round in 0..size(1, 10) {
        let (result, new) = fail_over(&sentinels, master, protection).await;
        result.print(round);
        result.finished.check(1).await;
        master = new;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_replication_on_all_replicas_nothing_runs_again() {
    nothing_runs_again(Protection::Replication).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_replication_on_all_replicas_nothing_runs_again_when_the_master_is_killed() {
    let mut sentinels = Sentinels::start().await;
    let mut master = 0;
    for round in 0..size(1, 10) {
        let instances = instances(&sentinels, Protection::Replication).await;
        let load = Load::start(instances, Keys::Endless);
        load.until_answered(200).await;
        sentinels.servers[master].kill();
        let killed = master;
        master = sentinels.until_failed_over(killed).await;
        sentinels.servers[killed].restart();
        until_role(&sentinels.servers[killed], "slave").await;
        sentinels.until_complete(master).await;
        load.until_answered(200).await;
        let finished = load.finish().await;
        let (ran, keys) = finished.bodies();
        println!("{round}: {ran} bodies of {keys} keys, refused: {:?}", finished.refused());
        finished.check(1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_min_replicas_and_writes_held_back_nothing_runs_again() {
    nothing_runs_again(Protection::MinReplicas).await;
}
