//! A store follows its sentinels: keys that are held move to the new master, nothing leads back,
//! and nothing is left behind.

use idempotent_runtime::store::RedisStore;
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Begin, Config, Error, ErrorKind, Idempotency, Mode};
use std::time::Duration;
use support::monitor::Monitor;
use support::redis::{RedisServer, age, info, info_number, record_name};
use support::sentinel::{MASTER, Pace, Sentinels};
use support::{OwnError, until_async};
use tokio::runtime::Builder;
use tokio::sync::Notify;

const TIMEOUT: Duration = Duration::from_millis(500);

async fn store(sentinels: &Sentinels) -> RedisStore {
    RedisStore::sentinel(MASTER, sentinels.urls()).timeout(TIMEOUT).connect().await.unwrap()
}

fn instance(store: RedisStore, config: Config) -> Idempotency {
    Idempotency::builder().store(store).config(config.with_mode(Mode::Strong)).build().unwrap()
}

async fn call(idem: &Idempotency, ledger: &Ledger, key: &str) -> Result<usize, Error> {
    idem.operation("op").key(key).run(async { Ok::<_, Error>(ledger.record(key)) }).await
}

fn name(idem: &Idempotency, key: &str) -> String {
    record_name(&idem.operation("op").key(key).record_key().unwrap())
}

async fn exists(server: &RedisServer, name: &str) -> bool {
    let mut connection = server.connection().await;
    redis::cmd("EXISTS").arg(name).query_async::<usize>(&mut connection).await.unwrap() == 1
}

async fn ttl(server: &RedisServer, name: &str) -> i64 {
    let mut connection = server.connection().await;
    redis::cmd("PTTL").arg(name).query_async(&mut connection).await.unwrap()
}

/// Fails over to another server, while the old one goes on as a master.
async fn fail_over(sentinels: &Sentinels) -> usize {
    sentinels.pace(Pace::Usual).await;
    sentinels.fail_over().await;
    sentinels.until_failed_over(0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_key_is_renewed_completed_and_waited_for_on_the_new_master() {
    let sentinels = Sentinels::start().await;
    let old = &sentinels.servers[0];
    let clients = info_number(old, "connected_clients").await;
    // Polls come far too late: who waits is woken, or waits for minutes.
    let config = Config::new()
        .with_lease(Duration::from_secs(6))
        .with_wait(Duration::from_secs(600))
        .with_retry_interval(Duration::from_secs(300));
    let owner = instance(store(&sentinels).await, config.clone());
    let waiter = instance(store(&sentinels).await, config.clone());
    let other = instance(store(&sentinels).await, config);
    let Begin::Fresh(attempt) = owner.operation("op").key("k").begin().await.unwrap() else {
        panic!("the key is not free");
    };
    let waiting = tokio::spawn(async move {
        let run = async { Err::<u32, _>(OwnError::new("the waiter ran")) };
        waiter.operation("op").key("k").run(run).await
    });
    until_async(|| async { info_number(old, "pubsub_channels").await >= 2 }).await;
    assert!(info_number(old, "connected_clients").await > clients);

    let new = &sentinels.servers[fail_over(&sentinels).await];
    until_async(|| async { info_number(old, "connected_clients").await <= clients }).await;
    let name = name(&owner, "k");
    // Time passes for the record; its holder brings it back to what it was.
    let before = ttl(new, &name).await;
    age(&mut new.connection().await, &name, Duration::from_secs(1)).await;
    until_async(|| async { ttl(new, &name).await > before - 500 }).await;

    until_async(|| async { info_number(new, "pubsub_channels").await >= 2 }).await;
    attempt.complete(&7).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 7);
    let run = async { Err::<u32, _>(OwnError::new("it ran again")) };
    assert_eq!(other.operation("op").key("k").run(run).await.unwrap(), 7);
    assert_eq!(info(old, "role").await, "master", "the old master has dropped connections itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_way_to_the_old_master_is_sent_again_to_the_new_one() {
    let sentinels = Sentinels::start().await;
    // No command gives up on its answer by itself.
    let builder = RedisStore::sentinel(MASTER, sentinels.urls()).timeout(Duration::from_secs(600));
    let config = Config::new().with_lease(Duration::from_secs(1_200));
    let idem = instance(builder.connect().await.unwrap(), config);
    let ledger = Ledger::new();
    let old = &sentinels.servers[0];
    let mut connection = old.connection().await;
    let mut pause = redis::cmd("CLIENT");
    pause.arg("PAUSE").arg(600_000).arg("WRITE");
    let () = pause.query_async(&mut connection).await.unwrap();
    let calling = {
        let (idem, ledger) = (idem.clone(), ledger.clone());
        tokio::spawn(async move { call(&idem, &ledger, "k").await })
    };
    until_async(|| async { client_list(old).await.contains(" cmd=set ") }).await;

    let new = &sentinels.servers[fail_over(&sentinels).await];
    until_async(|| async { calling.is_finished() }).await;
    assert_eq!(calling.await.unwrap().unwrap(), 1);
    assert!(exists(new, &name(&idem, "k")).await);
    assert_eq!(info(old, "role").await, "master");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_may_not_be_listened_to_are_asked() {
    let sentinels = Sentinels::start().await;
    for sentinel in &sentinels.sentinels {
        let mut connection = sentinel.connection().await;
        let mut command = redis::cmd("ACL");
        command.arg("SETUSER").arg("default").arg("-subscribe");
        let () = command.query_async(&mut connection).await.unwrap();
    }
    let (idem, ledger) = (instance(store(&sentinels).await, Config::new()), Ledger::new());
    let new = fail_over(&sentinels).await;
    let calls = std::sync::atomic::AtomicUsize::new(0);
    until_async(|| async {
        let key = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst).to_string();
        call(&idem, &ledger, &key).await.is_ok()
            && exists(&sentinels.servers[new], &name(&idem, &key)).await
    })
    .await;
    assert_eq!(listeners(&sentinels.sentinels[0]).await, 0);
    assert_eq!(info(&sentinels.servers[0], "role").await, "master");
}

#[test]
fn a_runtime_that_nobody_drove_meanwhile_does_not_write_to_the_old_master() {
    let main = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let still = Builder::new_current_thread().enable_all().build().unwrap();
    let sentinels = main.block_on(Sentinels::start());
    let idem = instance(still.block_on(store(&sentinels)), Config::new());
    let ledger = Ledger::new();
    assert_eq!(still.block_on(call(&idem, &ledger, "before")).unwrap(), 1);

    let monitor = main.block_on(Monitor::start(&sentinels.servers[0]));
    let new = main.block_on(fail_over(&sentinels));
    // Longer than sentinels are silent.
    main.block_on(async { tokio::time::sleep(Duration::from_secs(2)).await });
    assert_eq!(still.block_on(call(&idem, &ledger, "after")).unwrap(), 1);
    assert_eq!(still.block_on(call(&idem, &ledger, "before")).unwrap(), 1);
    assert_eq!(monitor.written(), [], "the old master was written to");
    assert!(main.block_on(exists(&sentinels.servers[new], &name(&idem, "after"))));
    assert_eq!(main.block_on(info(&sentinels.servers[0], "role")), "master");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_lags_behind_does_not_lead_back() {
    let mut sentinels = Sentinels::start().await;
    let idem = instance(store(&sentinels).await, Config::new());
    let ledger = Ledger::new();
    assert_eq!(call(&idem, &ledger, "before").await.unwrap(), 1);
    sentinels.pace(Pace::Usual).await;
    sentinels.sentinels[2].kill();
    sentinels.fail_over().await;
    let new = sentinels.until_failed_over(0).await;
    until_async(|| async { call(&idem, &ledger, "on the new master").await.is_ok() }).await;
    assert!(exists(&sentinels.servers[new], &name(&idem, "on the new master")).await);

    // Those who know are gone; the one that is left knows the old master, which takes writes.
    sentinels.sentinels[0].kill();
    sentinels.sentinels[1].kill();
    sentinels.sentinels[2].restart();
    assert_eq!(sentinels.master().await, Some(0));
    assert_eq!(info(&sentinels.servers[0], "role").await, "master");
    let mut connection = sentinels.servers[new].connection().await;
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("normal");
    let _: usize = kill.query_async(&mut connection).await.unwrap();
    let error = call(&idem, &ledger, "meanwhile").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable, "{error}");
    assert_eq!(ledger.ran("meanwhile"), 0);
    assert!(!exists(&sentinels.servers[0], &name(&idem, "meanwhile")).await);

    // When nobody has confirmed the new master for long enough, or the one that is left has found
    // it, calls go where that one says.
    until_async(|| async { call(&idem, &ledger, "meanwhile").await.is_ok() }).await;
    let named = sentinels.master().await.expect("one sentinel agrees with itself");
    assert!(exists(&sentinels.servers[named], &name(&idem, "meanwhile")).await);
}

async fn client_list(server: &RedisServer) -> String {
    let mut connection = server.connection().await;
    redis::cmd("CLIENT").arg("LIST").query_async(&mut connection).await.unwrap()
}

/// Number of clients that listen to a sentinel as a store does.
async fn listeners(sentinel: &RedisServer) -> usize {
    client_list(sentinel).await.lines().filter(|client| client.contains(" sub=2 ")).count()
}

async fn until_listeners(sentinels: &Sentinels, count: usize) {
    for sentinel in &sentinels.sentinels {
        until_async(|| async { listeners(sentinel).await == count }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sentinel_is_listened_to_until_the_store_is_dropped() {
    let sentinels = Sentinels::start().await;
    let store = store(&sentinels).await;
    until_listeners(&sentinels, 1).await;
    // A clone is the same store.
    let clone = store.clone();
    drop(store);
    clone.health().await.unwrap();
    until_listeners(&sentinels, 1).await;
    drop(clone);
    until_listeners(&sentinels, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_nobody_uses_leaves_sentinels_and_master_alone() {
    let sentinels = Sentinels::start().await;
    let clients = || info_number(&sentinels.servers[0], "connected_clients");
    let before = clients().await;
    let (idem, ledger) = (instance(store(&sentinels).await, Config::new()), Ledger::new());
    assert_eq!(call(&idem, &ledger, "before").await.unwrap(), 1);
    until_listeners(&sentinels, 1).await;
    assert!(clients().await > before);

    until_listeners(&sentinels, 0).await;
    until_async(|| async { clients().await <= before }).await;
    assert_eq!(call(&idem, &ledger, "before").await.unwrap(), 1);
    assert_eq!(call(&idem, &ledger, "after").await.unwrap(), 1);
    until_listeners(&sentinels, 1).await;
}

/// One whose callers have waited hears of freed records, and without a replay cache that is no use of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_whose_callers_have_waited_leaves_the_sentinels_alone() {
    let sentinels = Sentinels::start().await;
    let config = Config::new().with_wait(Duration::from_secs(60));
    let (idem, ledger) = (instance(store(&sentinels).await, config), Ledger::new());
    let ends = Notify::new();
    let slow = async || {
        let body = async {
            ends.notified().await;
            Ok::<_, Error>(ledger.record("k"))
        };
        idem.operation("op").key("k").run(body).await.unwrap()
    };
    let end = async {
        until_async(async || {
            let mut connection = sentinels.servers[0].connection().await;
            let mut subscribers = redis::cmd("PUBSUB");
            subscribers.arg("NUMSUB").arg("idempotent:freed");
            let (_, subscribers): (String, usize) =
                subscribers.query_async(&mut connection).await.unwrap();
            subscribers == 1
        })
        .await;
        ends.notify_one();
    };
    let (one, two, ()) = tokio::join!(slow(), slow(), end);
    assert_eq!((one, two), (1, 1));
    until_listeners(&sentinels, 1).await;
    until_listeners(&sentinels, 0).await;
}
