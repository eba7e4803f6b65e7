//! Records are listed on real servers, and only they.

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{Forgotten, Resolved};
use idempotent_runtime::store::{Cursor, Filter, Page, RedisStore, State, Store, StoreErrorKind};
use idempotent_runtime::{Abandon, Error, Idempotency, Mode, Resolution};
use std::collections::HashSet;
use support::cluster::Cluster;
use support::redis::{RedisServer, binaries, record_name};

async fn instance(store: RedisStore) -> Idempotency {
    Idempotency::builder().store(store).build().unwrap()
}

async fn run(idem: &Idempotency, operation: &'static str, key: u32) -> RecordKey {
    let order = idem.operation(operation).key(key).mode(Mode::Strong);
    let record = order.record_key().unwrap();
    order.run(async { Ok::<_, Error>("x".repeat(10_000)) }).await.unwrap();
    record
}

/// All pages, together. A cursor is taken by its text.
async fn scan(store: &dyn Store, filter: &Filter, limit: usize) -> (Page, usize) {
    let mut all = Page::default();
    let mut after = None;
    for pages in 1.. {
        let page = store.scan(filter, after.as_ref(), limit).await.unwrap();
        all.records.extend(page.records);
        all.skipped += page.skipped;
        match page.next {
            Some(next) => after = Some(Cursor::new(next.as_str())),
            None => return (all, pages),
        }
    }
    unreachable!("a scan ends")
}

#[tokio::test]
async fn foreign_keys_are_skipped_and_counted() {
    let server = RedisServer::start();
    let idem = instance(RedisStore::connect(&server.url()).await.unwrap()).await;
    let record = run(&idem, "orders.create", 1).await;
    let mut connection = server.connection().await;
    let mut foreign = redis::pipe();
    // Looks like a record and is none; cannot be a name of a record; is not text; is no string.
    foreign.cmd("SET").arg("idempotent:token:|orders.create|2").arg("foreign");
    foreign.cmd("SET").arg("{}idempotent:token:|orders.create|2").arg("foreign");
    foreign.cmd("SET").arg(b"a|orders.create|\xff").arg("foreign");
    foreign.cmd("LPUSH").arg("idempotent:token:|orders.create|3").arg("foreign");
    // Does not look like a record at all: the server does not even name it.
    foreign.cmd("SET").arg("session:1").arg("foreign");
    let () = foreign.query_async(&mut connection).await.unwrap();

    for limit in [1, 100] {
        let (page, _) = scan(idem.store(), &Filter::new(), limit).await;
        let keys: Vec<_> = page.records.iter().map(|found| &found.key).collect();
        assert_eq!((keys, page.skipped), (vec![&record], 3));
    }
}

#[tokio::test]
async fn a_scan_reads_no_values_and_never_asks_for_all_keys() {
    let server = RedisServer::start();
    let idem = instance(RedisStore::connect(&server.url()).await.unwrap()).await;
    for key in 0..50 {
        run(&idem, "orders.create", key).await;
    }
    run(&idem, "orders.other", 1).await;
    let mut connection = server.connection().await;
    let () = redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut connection).await.unwrap();
    let filter = Filter::new().operation("orders.create").state(State::Succeeded);
    let (page, pages) = scan(idem.store(), &filter, 10).await;
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
    assert_eq!(page.records.len(), 50);
    assert!(pages >= 2, "{pages} pages");
    // Commands of scripts are counted as well.
    assert!(stats.contains(&format!("cmdstat_scan:calls={pages},")), "{stats}");
    assert!(stats.contains("cmdstat_getrange:calls=50,"), "{stats}");
    assert!(!stats.contains("cmdstat_keys:") && !stats.contains("cmdstat_get:"), "{stats}");
}

#[tokio::test]
async fn an_operator_resolves_and_forgets_by_listed_keys() {
    let server = RedisServer::start();
    let idem = instance(RedisStore::connect(&server.url()).await.unwrap()).await;
    let pay = idem.operation("payments.create").key("a{b}|c").hash_tag("acme");
    let attempt = pay.clone().abandon(Abandon::Block).begin().await.unwrap();
    drop(attempt);
    let blocked = Filter::new().operation("payments.create").blocked();
    let found = loop {
        let (page, _) = scan(idem.store(), &blocked, 100).await;
        if let [found] = &page.records[..] {
            break found.clone();
        }
    };
    let text = found.key.as_str().to_owned();
    let record = idem.record(&text.parse().unwrap());
    assert_eq!(record.operation(), "payments.create");
    let resolved = record.resolve(Resolution::Succeeded(Some(&7_u8))).await.unwrap();
    assert_eq!(resolved, Resolved::Done);
    let replay = pay.clone().mode(Mode::Strong).run(async { Ok::<u8, Error>(1) }).await;
    assert_eq!(replay.unwrap(), 7);
    assert_eq!(record.forget(false).await.unwrap(), Forgotten::Deleted);
    assert_eq!(pay.get().await.unwrap(), None);
}

#[tokio::test]
async fn a_user_may_be_limited_to_what_a_scan_uses() {
    let server = RedisServer::start();
    let mut connection = server.connection().await;
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("app").arg(&["on", ">secret", "~*", "-@all", "+info", "+ping"]);
    user.arg(&["+get", "+set", "+pttl", "+eval", "+evalsha", "+scan", "+getrange", "+strlen"]);
    let () = user.query_async(&mut connection).await.unwrap();
    let url = format!("redis://app:secret@{}", server.address());
    let store = RedisStore::connect(&url).await.unwrap();
    let writer = instance(RedisStore::connect(&server.url()).await.unwrap()).await;
    run(&writer, "orders.create", 1).await;
    let (page, _) = scan(&store, &Filter::new(), 10).await;
    assert_eq!(page.records.len(), 1);

    let () = redis::cmd("ACL")
        .arg(&["SETUSER", "app", "-scan"])
        .query_async(&mut connection)
        .await
        .unwrap();
    let refused = store.scan(&Filter::new(), None, 10).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Misconfigured, "{refused}");
}

#[tokio::test]
async fn cursors_of_others_are_refused() {
    let server = RedisServer::start();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    for bad in ["", "x", "3.0000000000000001", "7@127.0.0.1:1"] {
        let cursor = Cursor::new(bad);
        let refused = store.scan(&Filter::new(), Some(&cursor), 10).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Misconfigured, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_master_of_a_cluster_is_asked() {
    let cluster = Cluster::start(&binaries()[0]).await;
    let idem = instance(RedisStore::cluster(cluster.urls()).connect().await.unwrap()).await;
    let mut expected = HashSet::new();
    for key in 0..60 {
        expected.insert(run(&idem, "orders.create", key).await);
    }
    let slots: HashSet<_> = expected
        .iter()
        .map(|key| redis::cluster_routing::Slot::for_key(record_name(key)))
        .map(|slot| format!("{slot:?}"))
        .collect();
    assert!(slots.len() > 40, "{} slots", slots.len());
    for limit in [3, 1_000] {
        let (page, pages) = scan(idem.store(), &Filter::new(), limit).await;
        let keys: HashSet<_> = page.records.iter().map(|found| found.key.clone()).collect();
        assert_eq!((keys, page.records.len()), (expected.clone(), expected.len()));
        assert!(pages >= 3, "{pages} pages for three masters");
    }
    let gone = Cursor::new("7@127.0.0.1:1");
    let refused = idem.store().scan(&Filter::new(), Some(&gone), 10).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Unavailable);
    assert!(refused.to_string().contains("help: start the scan again"), "{refused}");
}
