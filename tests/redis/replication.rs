//! Grants and answers that count only when replicas have them.

use idempotent_runtime::Abandon;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{
    BeginRequest, Begun, IfGone, Progress, StoreExt as _, Update, Updated,
};
use idempotent_runtime::store::{
    Claim, RedisBuilder, RedisStore, StoreError, StoreErrorKind, StoreFuture, Token,
};
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Config, Error, ErrorKind, Idempotency, Mode};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::cluster::Cluster;
use support::proxy::Proxy;
use support::redis::{RedisServer, binaries, info, installed, until_replicated, until_role};
use support::until_async;
use support::valve::{Flow, Valve};

const LENGTH: Duration = Duration::from_secs(60);

/// Nothing that replicas do not have is confirmed, also when it is sent again on another connection.
async fn waits_for_replicas(
    builder: RedisBuilder,
    masters: &[&RedisServer],
    replicas: &[&RedisServer],
) {
    let store = builder.replication(1, Duration::from_millis(100)).connect().await.unwrap();
    let key = RecordKey::from("replicated");
    let claim = Claim::Lease { lease: LENGTH, linger: LENGTH, abandon: Abandon::Retry };
    let token = Token::random();
    let request = BeginRequest { token, fingerprint: None, fence_seed: 1, claim };

    replicas.iter().for_each(|replica| replica.pause());
    for _ in 0..3 {
        let error = answered(|| store.begin(&key, &request)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}");
        assert_eq!(error.to_string(), "0 of 1 replicas confirmed the write in time");
        disconnect(masters).await;
    }
    replicas.iter().for_each(|replica| replica.go_on());
    for master in masters {
        until_replicated(master, 1).await;
    }
    let Begun::Fresh(attempt) = answered(|| store.begin(&key, &request)).await.unwrap() else {
        panic!("the same token is granted the same attempt");
    };

    // A lease counts for as long as replicas know it, alone and among many.
    let to = Progress::Renewed { lease: 2 * LENGTH };
    let renewal = || (key.clone(), Update { attempt, to: to.clone() });
    for count in [1, 2] {
        let renewals: Vec<_> = (0..count).map(|_| renewal()).collect();
        let renew = || {
            let renewed = store.execute_many(renewals.clone());
            StoreFuture::new(async { renewed.await.pop().unwrap() })
        };
        replicas.iter().for_each(|replica| replica.pause());
        let error = answered(renew).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}");
        replicas.iter().for_each(|replica| replica.go_on());
        for master in masters {
            until_replicated(master, 1).await;
        }
        assert_eq!(answered(renew).await.unwrap(), Updated::Done);
    }

    replicas.iter().for_each(|replica| replica.pause());
    for _ in 0..3 {
        let complete = || store.complete(&key, &attempt, None, LENGTH, IfGone::Rewrite);
        let error = answered(complete).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}");
        disconnect(masters).await;
    }
    replicas.iter().for_each(|replica| replica.go_on());
    for master in masters {
        until_replicated(master, 1).await;
    }
    let complete = || store.complete(&key, &attempt, None, LENGTH, IfGone::Rewrite);
    assert_eq!(answered(complete).await.unwrap(), Updated::Done);
}

/// The answer, which may take a new connection.
async fn answered<'a, T: Unpin>(
    mut ask: impl FnMut() -> idempotent_runtime::store::Answer<'a, T>,
) -> Result<T, StoreError> {
    for _ in 0..100 {
        match ask().await {
            Err(error) if error.kind() == StoreErrorKind::Unavailable => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            answer => return answer,
        }
    }
    panic!("the store does not answer");
}

async fn disconnect(masters: &[&RedisServer]) {
    for master in masters {
        let mut connection = master.connection().await;
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("normal");
        let _: usize = kill.query_async(&mut connection).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_waits_for_its_replica() {
    for binary in binaries() {
        let fast = ["--repl-diskless-sync-delay", "0"];
        let master = RedisServer::start_with(&binary, &fast);
        let port = master.port.to_string();
        let follow = [&["--replicaof", "127.0.0.1", &port], &fast[..]].concat();
        let replica = RedisServer::start_with(&binary, &follow);
        until_replicated(&master, 1).await;
        println!("replication: {}", binary.display());
        waits_for_replicas(RedisStore::builder(&master.url()), &[&master], &[&replica]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_waits_for_the_replica_of_the_record() {
    let cluster = Cluster::start(&installed()).await;
    let nodes: Vec<&RedisServer> = cluster.nodes.iter().collect();
    let (masters, replicas) = nodes.split_at(3);
    waits_for_replicas(RedisStore::cluster(cluster.urls()), masters, replicas).await;
}

const FAST: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

/// A replica of what listens on a port.
fn replica_of(port: u16) -> RedisServer {
    let port = port.to_string();
    let arguments = [&["--replicaof", "127.0.0.1", &port], &FAST[..]].concat();
    RedisServer::start_with(&installed(), &arguments)
}

async fn replicate(server: &RedisServer, master: [&str; 2]) {
    let mut connection = server.connection().await;
    let () = redis::cmd("REPLICAOF").arg(&master).query_async(&mut connection).await.unwrap();
}

async fn promote(server: &RedisServer) {
    replicate(server, ["NO", "ONE"]).await;
    until_role(server, "master").await;
}

/// Time limit for replicas. Long enough for a machine that compiles at the same time.
const CONFIRMED: Duration = Duration::from_secs(1);

/// A process that uses this server, and waits for so many replicas.
async fn process(server: &RedisServer, replicas: usize) -> Idempotency {
    process_at(&server.url(), replicas).await
}

async fn process_at(url: &str, replicas: usize) -> Idempotency {
    let builder = RedisStore::builder(url);
    let store = builder.replication(replicas, CONFIRMED).connect().await.unwrap();
    let config = Config::new().with_mode(Mode::Strong);
    Idempotency::builder().store(store).config(config).build().unwrap()
}

async fn call(idem: &Idempotency, ledger: &Ledger, key: &str) -> Result<usize, Error> {
    idem.operation("op").key(key).run(async { Ok::<_, Error>(ledger.record(key)) }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fewer_than_all_replicas_do_not_tell_the_one_that_is_promoted() {
    let mut master = RedisServer::start_with(&installed(), &FAST);
    let valve = Valve::open(master.address()).await;
    let (quick, slow) = (replica_of(master.port), replica_of(valve.port()));
    until_replicated(&master, 2).await;
    valve.set(Flow::Requests);
    let ledger = Ledger::new();
    let (by_one, by_all) = (process(&master, 1).await, process(&master, 2).await);
    assert_eq!(call(&by_one, &ledger, "one").await.unwrap(), 1);
    let error = call(&by_all, &ledger, "all").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReplicated, "{error}");
    assert_eq!(ledger.ran("all"), 0);

    master.kill();
    promote(&quick).await;
    promote(&slow).await;
    assert_eq!(call(&process(&quick, 0).await, &ledger, "one").await.unwrap(), 1);
    assert_eq!(ledger.ran("one"), 1, "the replica that confirmed knows the answer");
    assert_eq!(call(&process(&slow, 0).await, &ledger, "one").await.unwrap(), 2);
    assert_eq!(call(&process(&slow, 0).await, &ledger, "all").await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_master_replays_what_its_bodies_returned_and_grants_nothing_under_replication() {
    let old = RedisServer::start_with(&installed(), &FAST);
    let new = replica_of(old.port);
    until_replicated(&old, 1).await;
    let ledger = Ledger::new();
    let (protected, careless) = (process(&old, 1).await, process(&old, 0).await);
    assert_eq!(call(&protected, &ledger, "before").await.unwrap(), 1);
    promote(&new).await;

    // Both are masters.
    let moved = process(&new, 0).await;
    for idem in [&protected, &careless, &moved] {
        assert_eq!(call(idem, &ledger, "before").await.unwrap(), 1, "it ran once");
    }
    let error = call(&protected, &ledger, "late").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReplicated, "{error}");
    // What it grants without being asked for replicas, the new master does not know.
    until_async(|| async { call(&careless, &ledger, "late").await.is_ok() }).await;
    assert_eq!(call(&moved, &ledger, "late").await.unwrap(), 2);
    for idem in [&careless, &protected] {
        assert_eq!(call(idem, &ledger, "late").await.unwrap(), 1, "another body's answer");
    }
    assert_eq!(call(&moved, &ledger, "late").await.unwrap(), 2);

    replicate(&old, ["127.0.0.1", &new.port.to_string()]).await;
    until_async(|| async { info(&old, "master_link_status").await == "up" }).await;
    for idem in [&careless, &protected, &moved] {
        until_async(|| async { call(idem, &ledger, "late").await.is_ok_and(|it| it == 2) }).await;
    }
    assert_eq!(ledger.ran("late"), 2);
}

/// Takes down what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Connects, and tells whether a warning was given.
async fn warns(builder: RedisBuilder) -> bool {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let guard = tracing::subscriber::set_default(subscriber);
    builder.connect().await.unwrap();
    drop(guard);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let warning = "a failover can lose records: set min-replicas-to-write, or replication()";
    log.lines().any(|line| line.contains("WARN") && line.contains(warning))
}

#[tokio::test]
async fn a_replicated_server_without_protection_is_warned_of() {
    let master = RedisServer::start_with(&installed(), &FAST);
    let builder = || RedisStore::builder(&master.url());
    assert!(!warns(builder()).await, "there is nothing to fail over to");
    let _replica = replica_of(master.port);
    until_replicated(&master, 1).await;
    assert!(warns(builder()).await);
    assert!(!warns(builder().replication(1, LENGTH)).await);

    let mut connection = master.connection().await;
    let mut demand = redis::cmd("CONFIG");
    demand.arg("SET").arg("min-replicas-to-write").arg(1);
    let () = demand.query_async(&mut connection).await.unwrap();
    assert!(!warns(builder()).await);
}

#[tokio::test]
async fn a_cluster_with_replicas_is_warned_of() {
    let cluster = Cluster::start(&installed()).await;
    assert!(warns(RedisStore::cluster(cluster.urls())).await);
    assert!(!warns(RedisStore::cluster(cluster.urls()).replication(1, LENGTH)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_waits_once_for_its_large_answers() {
    let master = RedisServer::start_with(&installed(), &FAST);
    let _replica = replica_of(master.port);
    until_replicated(&master, 1).await;
    let proxy = Proxy::start(&master.address());
    let idem = process_at(&proxy.url(), 1).await;
    let batch = async |keys: [&'static str; 3]| {
        let body = async |keys: Vec<&str>| {
            keys.into_iter().map(|key| Ok::<_, Error>(key.repeat(20_000))).collect()
        };
        idem.operation("op").run_batch(keys.map(|key| (key, key)), body).await
    };
    // The server has the scripts from here on.
    batch(["a", "b", "c"]).await;
    proxy.forget();
    let answers = batch(["d", "e", "f"]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let waits = proxy.sent(|command| command.name() == "WAIT").len();
    assert_eq!(waits, 2, "one for all begins, one for all answers");
}
