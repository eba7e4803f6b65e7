//! Servers that evict records are noticed whenever a connection is made.

use idempotent_runtime::store::{RedisStore, StoreErrorKind};
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Error, ErrorKind, Idempotency};
use support::cluster::Cluster;
use support::redis::{RedisServer, info, installed};
use support::sentinel::{MASTER, Pace, Sentinels};
use support::until_async;
use tokio::runtime::Builder;

async fn set_policy(server: &RedisServer, policy: &str) {
    let mut connection = server.connection().await;
    let mut command = redis::cmd("CONFIG");
    command.arg("SET").arg("maxmemory-policy").arg(policy);
    let () = command.query_async(&mut connection).await.unwrap();
}

async fn disconnect(server: &RedisServer) {
    let mut connection = server.connection().await;
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("normal");
    let _: usize = kill.query_async(&mut connection).await.unwrap();
}

async fn call(idem: &Idempotency, ledger: &Ledger, key: &str) -> Result<usize, Error> {
    idem.operation("op").key(key).run(async { Ok::<_, Error>(ledger.record(key)) }).await
}

/// The call is refused, and nothing is sent for it.
async fn assert_refused(idem: &Idempotency, ledger: &Ledger, server: &RedisServer, key: &str) {
    let before = info(server, "cmdstat_set").await;
    for _ in 0..3 {
        let error = call(idem, ledger, key).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("maxmemory-policy is allkeys-lru"), "{error}");
        assert!(!error.body_ran());
    }
    assert_eq!(info(server, "cmdstat_set").await, before, "something was sent");
    assert_eq!(ledger.ran(key), 0);
}

#[tokio::test]
async fn a_server_that_evicts_by_the_time_of_another_connection_is_refused() {
    let server = RedisServer::start();
    let build = |store| Idempotency::builder().store(store).build().unwrap();
    let idem = build(RedisStore::connect(&server.url()).await.unwrap());
    let allowed = RedisStore::builder(&server.url()).allow_eviction().connect().await.unwrap();
    let (allowed, ledger) = (build(allowed), Ledger::new());
    assert_eq!(call(&idem, &ledger, "before").await.unwrap(), 1);
    set_policy(&server, "allkeys-lru").await;
    disconnect(&server).await;
    assert_refused(&idem, &ledger, &server, "meanwhile").await;
    assert_eq!(call(&allowed, &ledger, "allowed").await.unwrap(), 1);

    set_policy(&server, "noeviction").await;
    until_async(|| async { call(&idem, &ledger, "meanwhile").await.is_ok() }).await;
    assert_eq!(ledger.ran("meanwhile"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_to_a_server_that_evicts_is_refused() {
    let sentinels = Sentinels::start().await;
    let store = RedisStore::sentinel(MASTER, sentinels.urls()).connect().await.unwrap();
    let idem = Idempotency::builder().store(store).build().unwrap();
    let ledger = Ledger::new();
    assert_eq!(call(&idem, &ledger, "before").await.unwrap(), 1);
    for replica in &sentinels.servers[1..] {
        set_policy(replica, "allkeys-lru").await;
    }
    sentinels.pace(Pace::Usual).await;
    sentinels.fail_over().await;
    let new = &sentinels.servers[sentinels.until_failed_over(0).await];
    // Until the store is told, the old master may answer.
    let refused = async |key: &str| {
        let answer = call(&idem, &ledger, key).await;
        answer.is_err_and(|error| error.kind() == ErrorKind::Misconfigured)
    };
    let calls = std::sync::atomic::AtomicUsize::new(0);
    until_async(|| async {
        let call = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        refused(&call.to_string()).await
    })
    .await;
    assert_refused(&idem, &ledger, new, "after").await;
}

#[test]
fn every_primary_of_a_cluster_is_asked_whenever_a_connection_is_made() {
    let main = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let cluster = main.block_on(Cluster::start(&installed()));
    let connect = || RedisStore::cluster(cluster.urls()).connect();
    let store = main.block_on(connect()).unwrap();
    let (idem, ledger) = (Idempotency::builder().store(store).build().unwrap(), Ledger::new());
    for primary in &cluster.nodes[..3] {
        main.block_on(set_policy(primary, "allkeys-lru"));
        let error = main.block_on(connect()).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("maxmemory-policy is allkeys-lru"), "{error}");
        main.block_on(async {
            RedisStore::cluster(cluster.urls()).allow_eviction().connect().await
        })
        .unwrap();

        // Another runtime has a connection of its own.
        let other = Builder::new_current_thread().enable_all().build().unwrap();
        other.block_on(assert_refused(&idem, &ledger, primary, "k"));
        main.block_on(set_policy(primary, "noeviction"));
    }
    assert_eq!(main.block_on(call(&idem, &ledger, "k")).unwrap(), 1);
}
