//! Replays from the cache of a process, in front of a real server.

use crate::site::{Process, Site, TIMEOUT, strong};
use idempotent_runtime::protocol::{Forgotten, StoreExt as _};
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Config, Error, ErrorKind, Idempotency, Mode, ReplayCache};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::proxy::{Command, Fault, Gate};
use support::redis::binaries;
use support::sentinel::{MASTER, Pace, Sentinels};
use support::{until, until_async};
use tokio::net::{TcpListener, TcpStream};

/// Longer than any test takes: nothing is polled, renewed or too old meanwhile.
const LONG: Duration = Duration::from_secs(120);

async fn cached(site: &Site) -> Process {
    let config = strong().with_lease(LONG * 3).with_wait(LONG * 2).with_retry_interval(LONG);
    cached_with(site, LONG, config).await
}

async fn cached_with(site: &Site, timeout: Duration, config: Config) -> Process {
    let mut process = site.process().await;
    let store = RedisStore::builder(&process.proxy.url()).timeout(timeout).connect().await.unwrap();
    let cache = ReplayCache::new().max_age(LONG);
    let builder = Idempotency::builder().store(store).replay_cache(cache);
    process.idem = builder.config(config).build().unwrap();
    process
}

/// A process whose subscription is there: it begins with the first call.
async fn listening(site: &Site) -> Process {
    let process = cached(site).await;
    process.run("first").await.unwrap();
    until(|| is_listening(&process)).await;
    process
}

fn is_listening(process: &Process) -> bool {
    process.idem.replay_cache().unwrap().is_listening
}

/// Commands of calls, without those that keep a subscription.
fn sent(process: &Process) -> usize {
    process.proxy.sent(|command| !matches!(&*command.name(), "PING" | "SUBSCRIBE")).len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_that_is_kept_sends_nothing() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let (process, other) = (listening(&site).await, listening(&site).await);
        assert_eq!(process.run("k").await.unwrap(), 1);
        process.proxy.forget();
        for _ in 0..10 {
            assert_eq!(process.run("k").await.unwrap(), 1);
            let duplicate = process.op("k").mode(Mode::Reject).run(async { Ok::<u8, Error>(1) });
            assert_eq!(duplicate.await.unwrap_err().kind(), ErrorKind::Duplicate);
        }
        assert_eq!(sent(&process), 0, "{}", binary.display());
        // The other one has to ask once.
        other.proxy.forget();
        assert_eq!(other.run("k").await.unwrap(), 1);
        let asked = sent(&other);
        assert_eq!(other.run("k").await.unwrap(), 1);
        assert_eq!((asked > 0, sent(&other)), (true, asked));
        process.ends_clean().await;
        other.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_removed_in_one_process_is_not_replayed_in_another() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let (process, operator) = (listening(&site).await, listening(&site).await);
        for round in 1..=20 {
            for process in [&process, &operator] {
                // Nothing is kept while a message is heard, and the last one may be late.
                until_async(async || {
                    assert_eq!(process.run("k").await.unwrap(), round);
                    assert_eq!(process.run("kept").await.unwrap(), 1);
                    assert_eq!(process.run("first").await.unwrap(), 1);
                    process.idem.replay_cache().unwrap().entries == 3
                })
                .await;
            }
            assert_eq!(operator.op("k").forget(false).await.unwrap(), Forgotten::Deleted);
            // In the operator's own process before it has its answer, and in others by a message.
            assert_eq!(operator.idem.replay_cache().unwrap().entries, 2);
            until(|| process.idem.replay_cache().unwrap().entries == 2).await;
        }
        process.ends_clean().await;
        operator.ends_clean().await;
    }
}

/// By way of the store alone, as a tool without an instance does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_removed_through_another_store_is_not_replayed() {
    let site = Site::start().await;
    let process = listening(&site).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    let kept = process.idem.replay_cache().unwrap().entries;
    let store = RedisStore::connect(&site.server.url()).await.unwrap();
    let key = process.op("k").record_key().unwrap();
    assert_eq!(store.forget(&key, false).await.unwrap(), Forgotten::Deleted);
    until(|| process.idem.replay_cache().unwrap().entries < kept).await;
    assert_eq!(process.run("k").await.unwrap(), 2);
    process.ends_clean().await;
}

async fn kill_subscribers(site: &Site) {
    site.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_without_its_subscription_asks_the_server() {
    let site = Site::start().await;
    let (process, operator) = (listening(&site).await, site.process().await);
    for round in 1..=3 {
        assert_eq!(process.run("k").await.unwrap(), round);
        // It does not come back for a while.
        process.proxy.fault_always(is_subscription, Fault::CutBefore);
        kill_subscribers(&site).await;
        until(|| !is_listening(&process)).await;
        assert_eq!(process.idem.replay_cache().unwrap().entries, 0);
        operator.op("k").forget(false).await.unwrap();
        assert_eq!(process.run("k").await.unwrap(), round + 1, "nobody told it");
        process.proxy.forget();
        assert_eq!(process.run("k").await.unwrap(), round + 1);
        assert!(sent(&process) > 0);
        assert_eq!(process.idem.replay_cache().unwrap().entries, 0);

        process.proxy.heal();
        until(|| is_listening(&process)).await;
        assert_eq!(process.run("k").await.unwrap(), round + 1);
        process.proxy.forget();
        assert_eq!(process.run("k").await.unwrap(), round + 1);
        assert_eq!(sent(&process), 0);
    }
    process.ends_clean().await;
    operator.ends_clean().await;
}

/// Nothing says that the connection is broken: it is asked now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_breaks_without_a_sign_is_noticed() {
    let site = Site::start().await;
    let process = cached_with(&site, Duration::from_secs(1), strong()).await;
    process.run("k").await.unwrap();
    until(|| is_listening(&process)).await;
    process.proxy.fault_always(|command: &Command| command.name() == "PING", Fault::LoseRequest);
    until(|| !is_listening(&process)).await;
    assert_eq!(process.idem.replay_cache().unwrap().entries, 0);
}

fn is_subscription(command: &Command) -> bool {
    command.name() == "SUBSCRIBE"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_counts_from_its_confirmation() {
    let site = Site::start().await;
    let process = cached(&site).await;
    let gate = Gate::new();
    process.proxy.fault_always(is_subscription, Fault::HoldRequest(gate.clone()));
    process.run("k").await.unwrap();
    until(|| gate.held() == 1).await;
    process.proxy.forget();
    assert_eq!(process.run("k").await.unwrap(), 1);
    assert!(!is_listening(&process) && sent(&process) > 0);
    gate.open();
    until(|| is_listening(&process)).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    process.proxy.forget();
    assert_eq!(process.run("k").await.unwrap(), 1);
    assert_eq!(sent(&process), 0);
    process.ends_clean().await;
}

/// A server on which this user may not hear of freed records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_may_not_listen_has_no_cache() {
    let site = Site::start().await;
    let ended = "&idempotent:ended";
    let rules = ["ACL", "SETUSER", "deaf", "on", ">p", "~*", "+@all", "resetchannels", ended];
    site.command(&rules).await;
    let url = format!("redis://deaf:p@{}/", site.server.address());
    let store = RedisStore::connect(&url).await.unwrap();
    let builder = Idempotency::builder().store(store).config(strong());
    let idem = builder.replay_cache(ReplayCache::new()).build().unwrap();
    for _ in 0..3 {
        let answer: Result<u8, Error> = idem.operation("o").key(1).run(async { Ok(1) }).await;
        assert_eq!(answer.unwrap(), 1);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let usage = idem.replay_cache().unwrap();
    assert_eq!((usage.is_listening, usage.entries), (false, 0));
}

#[tokio::test]
async fn a_connection_of_the_callers_own_cannot_tell_and_is_refused() {
    let site = Site::start().await;
    let given = site.server.connection().await;
    let store = RedisStore::with_connection(given).connect().await.unwrap();
    let builder = Idempotency::builder().store(store).replay_cache(ReplayCache::new());
    let refused = builder.build().unwrap_err().to_string();
    assert!(refused.contains("tells of every record that an operator frees"), "{refused}");
    assert!(refused.contains("help: `RedisStore::connect`"), "{refused}");
}

/// It sends nothing for longer than a connection is kept for no use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_only_replays_hears_what_is_freed_on_a_new_master() {
    let sentinels = Sentinels::start().await;
    let store = async || {
        let builder = RedisStore::sentinel(MASTER, sentinels.urls());
        builder.timeout(Duration::from_millis(500)).connect().await.unwrap()
    };
    let cache = ReplayCache::new().max_age(Duration::from_secs(3_600));
    let config = Config::new().with_mode(Mode::Strong);
    let builder = Idempotency::builder().store(store().await).replay_cache(cache).config(config);
    let idem = builder.build().unwrap();
    let ledger = Ledger::new();
    let call = async || {
        let run = async { Ok::<_, Error>(ledger.record("k")) };
        idem.operation("op").key("k").run(run).await.unwrap()
    };
    call().await;
    until(|| idem.replay_cache().unwrap().is_listening).await;
    assert_eq!(call().await, 1);
    assert_eq!(idem.replay_cache().unwrap().entries, 1);
    tokio::time::sleep(Duration::from_secs(25)).await;
    sentinels.pace(Pace::Usual).await;
    sentinels.fail_over().await;
    sentinels.until_failed_over(0).await;
    let key = idem.operation("op").key("k").record_key().unwrap();
    assert_eq!(store().await.forget(&key, false).await.unwrap(), Forgotten::Deleted);
    // The old master tells nobody of it. It is demoted ten seconds later.
    let heard = until_async(async || call().await == 2);
    assert!(tokio::time::timeout(Duration::from_secs(5), heard).await.is_ok());
}

/// A server that is slow for a moment, as it is while it forks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_is_not_answered_in_time_is_tried_again() {
    let site = Site::start().await;
    let process = cached_with(&site, TIMEOUT, strong()).await;
    let gate = Gate::new();
    let is_freed = |command: &Command| is_subscription(command) && command.has("idempotent:freed");
    process.proxy.fault_at(1, is_freed, Fault::HoldRequest(gate.clone()));
    until_async(async || process.run("k").await.is_ok()).await;
    until(|| gate.held() == 1).await;
    until(|| is_listening(&process)).await;
    gate.open();
}

/// The reply to the removal is lost: it has taken effect, and other processes are to be told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_whose_removal_is_not_answered_is_not_replayed() {
    let site = Site::start().await;
    let (process, operator) = (listening(&site).await, site.process().await);
    assert_eq!(process.run("k").await.unwrap(), 1);
    let is_removal = |command: &Command| {
        matches!(&*command.name(), "EVAL" | "EVALSHA" | "DELEX" | "DELIFEQ" | "DEL" | "GETDEL")
    };
    // The first one reads the record.
    operator.proxy.fault_at(2, is_removal, Fault::LoseReply);
    operator.op("k").forget(false).await.unwrap_err();
    assert!(site.bytes("k").await.is_none(), "it was removed: {:?}", operator.proxy.commands());
    until_async(async || process.run("k").await.unwrap() == 2).await;
}

/// An address that is moved to another server, as a name, a virtual address or a proxy is after a failover. The old server is
/// still there, and so is the subscription to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_follows_the_calls_to_another_server() {
    let servers = [Site::start().await, Site::start().await];
    let leads_to = Arc::new(AtomicUsize::new(0));
    let addresses = servers.each_ref().map(|site| site.server.address());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    let leads = Arc::clone(&leads_to);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let address = addresses[leads.load(SeqCst)].clone();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(address).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    let store = RedisStore::builder(&url).timeout(LONG).connect().await.unwrap();
    let cache = ReplayCache::new().max_age(LONG);
    let idem = Idempotency::builder().store(store).replay_cache(cache).config(strong());
    let idem = idem.build().unwrap();
    let ledger = Ledger::new();
    let call = async |key| {
        let run = async { Ok::<_, Error>(ledger.record(key)) };
        idem.operation("op").key(key).run(run).await
    };
    let is_listening = || idem.replay_cache().unwrap().is_listening;
    assert_eq!(call("k").await.unwrap(), 1);
    until(is_listening).await;
    assert_eq!(call("k").await.unwrap(), 1);
    leads_to.store(1, SeqCst);
    servers[0].command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    until_async(async || call("another").await.is_ok()).await;
    // What is kept is of the old server: on the new one there is no record.
    until_async(async || call("k").await.unwrap() == 2).await;
    until(is_listening).await;
    assert_eq!(call("k").await.unwrap(), 2);
    let key = idem.operation("op").key("k").record_key().unwrap();
    let operator = RedisStore::connect(&servers[1].server.url()).await.unwrap();
    assert_eq!(operator.forget(&key, false).await.unwrap(), Forgotten::Deleted);
    until_async(async || call("k").await.unwrap() == 3).await;
}
