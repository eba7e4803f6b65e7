//! Sentinels: the master is found, followed when it changes, and never confused with another.

use idempotent_runtime::store::{RedisStore, StoreErrorKind};
use idempotent_runtime::testing::{Ledger, contract};
use idempotent_runtime::{Error, ErrorKind};
use std::time::Duration;
use support::load::{Keys, Load, config, instance};
use support::redis::{RedisServer, RedisSubject, info, until_role};
use support::sentinel::{MASTER, Sentinels};
use support::{size, until_async};

/// Short, so that a master that went silent is soon given up.
const TIMEOUT: Duration = Duration::from_millis(500);

async fn store(sentinels: &Sentinels) -> RedisStore {
    RedisStore::sentinel(MASTER, sentinels.urls()).timeout(TIMEOUT).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_is_found_by_any_sentinel_that_answers() {
    let mut sentinels = Sentinels::start().await;
    sentinels.sentinels[0].kill();
    let store = RedisStore::sentinel(MASTER, sentinels.urls()).connect().await.unwrap();
    let subject = RedisSubject::of(store, sentinels.servers[0].connection().await);
    contract::all(&subject).await;

    let error = RedisStore::sentinel("theirs", sentinels.urls()).connect().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert_eq!(error.to_string(), "the sentinels know no master `theirs`");

    sentinels.sentinels.iter_mut().for_each(RedisServer::kill);
    let error = RedisStore::sentinel(MASTER, sentinels.urls()).connect().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("Connection refused"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_on_after_the_master_is_killed() {
    let mut sentinels = Sentinels::start().await;
    let mut master = 0;
    for _ in 0..size(1, 10) {
        let instances = vec![instance(store(&sentinels).await), instance(store(&sentinels).await)];
        let load = Load::start(instances, Keys::Endless);
        load.until_answered(100).await;
        sentinels.servers[master].kill();
        let killed = master;
        master = sentinels.until_failed_over(killed).await;
        load.until_answered(200).await;
        let finished = load.finish().await;
        println!("{} answers, refused: {:?}", finished.answered(), finished.refused());
        finished.check(2).await;

        sentinels.servers[killed].restart();
        until_role(&sentinels.servers[killed], "slave").await;
        sentinels.until_complete(master).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_wakes_up_after_a_failover_is_not_written_to() {
    let sentinels = Sentinels::start().await;
    let instances = vec![instance(store(&sentinels).await), instance(store(&sentinels).await)];
    let load = Load::start(instances, Keys::Endless);
    load.until_answered(100).await;
    let old = &sentinels.servers[0];
    old.pause();
    sentinels.until_failed_over(0).await;
    load.until_answered(100).await;

    old.go_on();
    // It takes writes until the sentinels tell it that it is a replica.
    let mut looks = 0;
    let before = written(old).await;
    loop {
        let after = written(old).await;
        if info(old, "role").await != "master" {
            break;
        }
        assert_eq!(after, before, "the old master was written to");
        looks += 1;
    }
    assert!(looks > 0, "the old master was never seen as one");
    load.until_answered(100).await;
    let finished = load.finish().await;
    println!("{} answers, refused: {:?}", finished.answered(), finished.refused());
    finished.check(2).await;
}

/// What a server says about the commands with which stores write.
async fn written(server: &RedisServer) -> [String; 2] {
    [info(server, "cmdstat_set").await, info(server, "cmdstat_evalsha").await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_no_replica_has_is_refused_and_the_key_released() {
    let mut sentinels = Sentinels::start().await;
    let store = RedisStore::sentinel(MASTER, sentinels.urls())
        .timeout(TIMEOUT)
        .replication(1, Duration::from_millis(100))
        .connect()
        .await
        .unwrap();
    let ledger = Ledger::new();
    let idem = idempotent_runtime::Idempotency::builder()
        .store(store)
        .config(config().with_lease(Duration::from_secs(30)))
        .build()
        .unwrap();
    let call = |key: &'static str| {
        let (idem, ledger) = (&idem, &ledger);
        async move {
            idem.operation("op").key(key).run(async { Ok::<_, Error>(ledger.record(key)) }).await
        }
    };
    assert_eq!(call("with replicas").await.unwrap(), 1);
    assert_eq!(call("with replicas").await.unwrap(), 1);

    // Stopped, not ended: the master still counts on them.
    sentinels.servers[1..].iter().for_each(RedisServer::pause);
    let error = call("without").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReplicated);
    assert!(!error.body_ran());
    assert!(error.to_string().contains("0 of 1 replicas confirmed the write in time"), "{error}");
    assert_eq!(ledger.ran("without"), 0);
    let connection = sentinels.servers[0].connection().await;
    let name = idem.operation("op").key("without").record_key().unwrap();
    let name = support::redis::record_name(&name);
    until_async(|| {
        let (mut connection, name) = (connection.clone(), name.clone());
        async move {
            let mut exists = ::redis::cmd("EXISTS");
            exists.arg(name).query_async::<usize>(&mut connection).await.unwrap() == 0
        }
    })
    .await;
    // What was answered before is still answered: a replay writes nothing.
    assert_eq!(call("with replicas").await.unwrap(), 1);

    sentinels.servers[1..].iter().for_each(RedisServer::go_on);
    until_async(|| async { call("without").await.is_ok() }).await;
    assert_eq!(ledger.ran("without"), 1);

    sentinels.servers[1..].iter_mut().for_each(RedisServer::kill);
    let error = call("ended").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReplicated);
    assert_eq!(ledger.ran("ended"), 0);
}
