//! Connections that end, and servers that come and go.

use idempotent_runtime::store::RedisStore;
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Begin, Config, Error, ErrorKind, Idempotency, Mode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use support::fake::Fake;
use support::redis::{RedisServer, info_number, installed};
use support::{OwnError, until, until_async};

const TIMEOUT: Duration = Duration::from_millis(300);

async fn instance(server: &RedisServer) -> Idempotency {
    let store = RedisStore::builder(&server.url()).timeout(TIMEOUT).connect().await.unwrap();
    let config = Config::new().with_mode(Mode::Strong);
    Idempotency::builder().store(store).config(config).build().unwrap()
}

async fn call(idem: &Idempotency, ledger: &Ledger, key: &str) -> Result<usize, Error> {
    let run = async { Ok::<_, Error>(ledger.record(key)) };
    idem.operation("op").key(key).run(run).await
}

#[tokio::test]
async fn a_server_that_was_restarted_is_found_by_the_next_call() {
    let on_disk = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = RedisServer::start_with(&installed(), &on_disk);
    let (idem, ledger) = (instance(&server).await, Ledger::new());
    for round in 0..3 {
        let key = round.to_string();
        assert_eq!(call(&idem, &ledger, &key).await.unwrap(), 1);
        server.restart();
        assert_eq!(call(&idem, &ledger, &key).await.unwrap(), 1, "the answer was kept");
    }
    assert_eq!(ledger.total(), 3);
}

#[tokio::test]
async fn a_connection_that_is_killed_is_made_again_by_the_next_call() {
    let server = RedisServer::start();
    let (idem, ledger) = (instance(&server).await, Ledger::new());
    let mut connection = server.connection().await;
    for round in 0..20 {
        let key = round.to_string();
        assert_eq!(call(&idem, &ledger, &key).await.unwrap(), 1);
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("normal");
        let killed: usize = kill.query_async(&mut connection).await.unwrap();
        assert!(killed > 0, "there was nothing to kill");
        assert_eq!(call(&idem, &ledger, &key).await.unwrap(), 1);
    }
    assert_eq!(ledger.total(), 20);
}

#[tokio::test]
async fn waiters_are_woken_after_their_subscription_was_killed() {
    let server = RedisServer::start();
    let slow = Config::new()
        .with_mode(Mode::Strong)
        .with_wait(Duration::from_secs(600))
        .with_lease(Duration::from_secs(600))
        .with_retry_interval(Duration::from_secs(300));
    let build = || async {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        Idempotency::builder().store(store).config(slow.clone()).build().unwrap()
    };
    let (owner, waiter) = (build().await, build().await);
    let Begin::Fresh(attempt) = owner.operation("op").key("k").begin().await.unwrap() else {
        panic!("the key is not free");
    };
    let waiting = tokio::spawn(async move {
        let run = async { Err::<u32, _>(OwnError::new("the waiter ran")) };
        waiter.operation("op").key("k").run(run).await
    });
    let subscribers = || info_number(&server, "pubsub_channels");
    until_async(|| async { subscribers().await == 1 }).await;
    let mut connection = server.connection().await;
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("pubsub");
    let killed: usize = kill.query_async(&mut connection).await.unwrap();
    assert_eq!(killed, 1);
    until_async(|| async { subscribers().await == 1 }).await;
    let ended = Instant::now();
    attempt.complete(&7).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 7);
    assert!(ended.elapsed() < Duration::from_secs(60), "nobody was woken");
}

/// Callers that never rest.
struct Impatient {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    callers: Vec<tokio::task::JoinHandle<()>>,
}

impl Impatient {
    fn start(idem: &Idempotency, ledger: &Ledger) -> Self {
        let (stop, calls) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let caller = |_| {
            let (idem, ledger) = (idem.clone(), ledger.clone());
            let (stop, calls) = (Arc::clone(&stop), Arc::clone(&calls));
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    let number = calls.fetch_add(1, SeqCst);
                    let _ = call(&idem, &ledger, &format!("impatient-{number}")).await;
                    tokio::task::yield_now().await;
                }
            })
        };
        let callers = (0..8).map(caller).collect();
        Self { stop, calls, callers }
    }

    async fn finish(self) -> usize {
        self.stop.store(true, SeqCst);
        for caller in self.callers {
            caller.await.unwrap();
        }
        self.calls.load(SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_not_stormed() {
    let mut server = RedisServer::start();
    let (idem, ledger) = (instance(&server).await, Ledger::new());
    call(&idem, &ledger, "before").await.unwrap();
    server.kill();
    let listener = Fake::closing(server.port);
    let callers = Impatient::start(&idem, &ledger);
    let started = Instant::now();
    // The pauses double from 10 ms up to a second: for each of the two runtimes about eight tries in
    // the first second.
    until(|| started.elapsed() > Duration::from_secs(1) && listener.connections() > 4).await;
    let (tries, seconds) = (listener.connections(), started.elapsed().as_secs());
    drop(listener);
    assert_eq!(ledger.total(), 1, "a body ran without a store");
    let most = 30 + 6 * usize::try_from(seconds).unwrap();
    assert!(tries <= most, "{tries} connections in {seconds} s");

    server.restart();
    until(|| ledger.total() > 50).await;
    let calls = callers.finish().await;
    assert!(calls > tries, "{calls} calls, {tries} connections");
    let received = info_number(&server, "total_connections_received").await;
    assert!(received <= 10, "{received} connections after the restart");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_writes_is_not_stormed() {
    let server = RedisServer::start();
    let (idem, ledger) = (instance(&server).await, Ledger::new());
    assert_eq!(call(&idem, &ledger, "before").await.unwrap(), 1);
    let mut connection = server.connection().await;
    let mut demand = redis::cmd("CONFIG");
    demand.arg("SET").arg("min-replicas-to-write").arg(1);
    let () = demand.query_async(&mut connection).await.unwrap();
    let before = info_number(&server, "total_connections_received").await;
    let started = Instant::now();
    for number in 0..300 {
        let error = call(&idem, &ledger, &format!("k{number}")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotReplicated);
    }
    assert_eq!(call(&idem, &ledger, "before").await.unwrap(), 1, "an answer is still given");
    let seconds = started.elapsed().as_secs();
    let received = info_number(&server, "total_connections_received").await - before;
    // One a second for each runtime that uses the store, and that of the question itself.
    assert!(received <= 6 + 2 * seconds, "{received} connections in {seconds} s");
    assert_eq!(ledger.total(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_is_used_again_when_it_wakes() {
    let server = RedisServer::start();
    let (idem, ledger) = (instance(&server).await, Ledger::new());
    assert_eq!(call(&idem, &ledger, "before").await.unwrap(), 1);
    server.pause();
    let error = call(&idem, &ledger, "meanwhile").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
    assert!(!error.body_ran());
    server.go_on();
    until_async(|| async { call(&idem, &ledger, "after").await.is_ok() }).await;
    assert_eq!(call(&idem, &ledger, "before").await.unwrap(), 1);
    // What was sent while it was silent took effect later, and is released.
    until_async(|| async { call(&idem, &ledger, "meanwhile").await.is_ok() }).await;
    assert_eq!(ledger.ran("meanwhile"), 1);
    assert_eq!(ledger.total(), 3);
}
