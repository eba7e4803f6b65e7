//! Every way to reach a server.

use idempotent_runtime::store::{RedisStore, Store};
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Begin, Config, Error, Idempotency, Mode};
use redis::aio::ConnectionManager;
use std::time::{Duration, Instant};
use support::redis::{RedisServer, connection, info_number};
use support::{OwnError, until_async};
use tokio::runtime::{Builder, Runtime};

fn instance(store: impl Store) -> Idempotency {
    let config = Config::new().with_mode(Mode::Strong).with_wait(Duration::from_secs(30));
    Idempotency::builder().store(store).config(config).build().unwrap()
}

/// One body, and a replay of its answer.
async fn runs_once(store: impl Store) {
    let (idem, ledger) = (instance(store), Ledger::new());
    for _ in 0..2 {
        let run = async { Ok::<_, Error>(ledger.record("k")) };
        assert_eq!(idem.operation("connect").key("k").run(run).await.unwrap(), 1);
    }
}

/// The owner ends a key that the other waits for, with polls that come too late.
async fn wakes(owner: RedisStore, other: RedisStore) {
    let slow = Config::new()
        .with_mode(Mode::Strong)
        .with_wait(Duration::from_secs(600))
        .with_lease(Duration::from_secs(600))
        .with_retry_interval(Duration::from_secs(300));
    let build = |store| Idempotency::builder().store(store).config(slow.clone()).build().unwrap();
    let (owner, other) = (build(owner), build(other));
    let Begin::Fresh(attempt) = owner.operation("wakes").key("k").begin().await.unwrap() else {
        panic!("the key is not free");
    };
    let waiting = tokio::spawn(async move {
        let run = async { Err::<u32, _>(OwnError::new("the waiter ran")) };
        other.operation("wakes").key("k").run(run).await
    });
    // Long enough to fall asleep. Who looks later finds the answer without being woken.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let ended = Instant::now();
    attempt.complete(&7).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 7);
    assert!(ended.elapsed() < Duration::from_secs(60), "nobody was woken");
}

async fn records_in(server: &RedisServer, database: i64) -> usize {
    let mut connection = connection(&format!("{}{database}", server.url())).await;
    redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap()
}

async fn set_user(server: &RedisServer, rules: &str) {
    let mut connection = server.connection().await;
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg(rules.split(' ').collect::<Vec<_>>());
    let () = command.query_async(&mut connection).await.unwrap();
}

#[tokio::test]
async fn by_address_and_by_socket() {
    let server = RedisServer::start();
    runs_once(RedisStore::connect(&server.url()).await.unwrap()).await;
    let by_socket = format!("unix://{}?db=1", server.socket().display());
    runs_once(RedisStore::connect(&by_socket).await.unwrap()).await;
    assert_eq!(records_in(&server, 0).await, 1);
    assert_eq!(records_in(&server, 1).await, 1);
}

#[tokio::test]
async fn records_are_in_the_database_that_was_asked_for() {
    let server = RedisServer::start();
    let url = format!("{}3", server.url());
    runs_once(RedisStore::connect(&url).await.unwrap()).await;
    runs_once(RedisStore::builder(&server.url()).database(4).connect().await.unwrap()).await;
    for (database, records) in [(0, 0), (3, 1), (4, 1)] {
        assert_eq!(records_in(&server, database).await, records, "database {database}");
    }
}

#[tokio::test]
async fn with_a_password_alone_or_as_a_user() {
    let server = RedisServer::start();
    set_user(&server, "app on >p%40ss ~* &* +@all").await;
    let place = server.address();
    let encoded = format!("redis://app:p%2540ss@{place}");
    runs_once(RedisStore::connect(&encoded).await.unwrap()).await;
    let apart = RedisStore::builder(&format!("redis://{place}/1")).login("app", "p%40ss");
    runs_once(apart.connect().await.unwrap()).await;
    set_user(&server, "default on >secret ~* &* +@all").await;
    let alone = format!("redis://:secret@{place}/2");
    runs_once(RedisStore::connect(&alone).await.unwrap()).await;
}

/// What a user needs is no more than this; the documents name it.
#[tokio::test]
async fn a_user_may_be_limited_to_the_commands_that_are_used() {
    let server = RedisServer::start();
    set_user(
        &server,
        "app on >secret ~* &idempotent:ended -@all +info +ping +get +set +pttl +pexpire +del \
         +getrange +setrange +eval +evalsha +publish +subscribe",
    )
    .await;
    let url = format!("redis://app:secret@{}", server.address());
    runs_once(RedisStore::connect(&url).await.unwrap()).await;
    let connect = || async { RedisStore::connect(&url).await.unwrap() };
    wakes(connect().await, connect().await).await;
}

#[tokio::test]
async fn waiters_are_woken_by_another_process() {
    let server = RedisServer::start();
    let connect = || async { RedisStore::connect(&server.url()).await.unwrap() };
    wakes(connect().await, connect().await).await;
}

#[tokio::test]
async fn by_a_connection_of_the_callers_own() {
    let server = RedisServer::start();
    let given = server.connection().await;
    runs_once(RedisStore::with_connection(given).connect().await.unwrap()).await;

    let client = redis::Client::open(format!("{}1", server.url())).unwrap();
    let manager = ConnectionManager::new(client).await.unwrap();
    runs_once(RedisStore::with_connection(manager).connect().await.unwrap()).await;
    assert_eq!(records_in(&server, 0).await, 1);
    assert_eq!(records_in(&server, 1).await, 1);
}

#[tokio::test]
async fn waiters_poll_where_nothing_can_be_heard() {
    let server = RedisServer::start();
    let store = || async {
        RedisStore::with_connection(server.connection().await).connect().await.unwrap()
    };
    let (owner, other) = (instance(store().await), instance(store().await));
    let Begin::Fresh(attempt) = owner.operation("polls").key("k").begin().await.unwrap() else {
        panic!("the key is not free");
    };
    let run = async { Err::<u32, _>(OwnError::new("the waiter ran")) };
    let operation = other.operation("polls").key("k");
    let waiting = operation.run(run);
    let complete = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        attempt.complete(&7).await.unwrap();
        Instant::now()
    };
    let (answer, ended) = tokio::join!(waiting, complete);
    assert_eq!(answer.unwrap(), 7);
    // The first polls come every few hundred milliseconds.
    assert!(ended.elapsed() < Duration::from_secs(10), "it took {:?}", ended.elapsed());
}

#[test]
fn a_runtime_that_ends_does_not_break_the_store() {
    let server = RedisServer::start();
    let main = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let store = main.block_on(RedisStore::connect(&server.url())).unwrap();
    let (idem, ledger) = (instance(store.clone()), Ledger::new());
    let clients = || main.block_on(info_number(&server, "connected_clients"));
    let call = |runtime: &Runtime, key: &str| {
        let run = async { Ok::<_, Error>(ledger.record(key)) };
        runtime.block_on(idem.operation("runtimes").key(key).run(run)).unwrap()
    };
    call(&main, "main");
    let before = clients();
    for number in 0..12 {
        let runtime = if number % 2 == 0 {
            Builder::new_current_thread().enable_all().build().unwrap()
        } else {
            Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
        };
        assert_eq!(call(&runtime, &number.to_string()), 1);
        assert_eq!(call(&runtime, "main"), 1);
    }
    assert_eq!(call(&main, "0"), 1);
    assert_eq!(ledger.total(), 13);
    main.block_on(until_async(|| async {
        info_number(&server, "connected_clients").await <= before
    }));
    // Of this runtime and the keeper's at most.
    let shown = format!("{store:?}");
    assert!(shown.contains("runtimes: 1") || shown.contains("runtimes: 2"), "{shown}");
}

#[test]
fn a_body_that_blocks_its_runtime_keeps_its_lease() {
    const LEASE: Duration = Duration::from_millis(500);
    let server = RedisServer::start();
    let connect = || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let store = runtime.block_on(RedisStore::connect(&server.url())).unwrap();
        let config = Config::new().with_lease(LEASE);
        (runtime, Idempotency::builder().store(store).config(config).build().unwrap())
    };
    let (runtime, idem) = connect();
    let (started, begun) = std::sync::mpsc::channel();
    let blocked = std::thread::spawn(move || {
        let run = async {
            started.send(()).unwrap();
            std::thread::sleep(4 * LEASE);
            Ok::<_, Error>(())
        };
        runtime.block_on(idem.operation("blocked").key("k").run(run))
    });
    begun.recv().unwrap();
    let (runtime, neighbour) = connect();
    let began = Instant::now();
    let mut refused_after_a_lease = 0;
    loop {
        match runtime.block_on(neighbour.operation("blocked").key("k").begin()) {
            Ok(Begin::InFlight { .. }) if began.elapsed() > LEASE => refused_after_a_lease += 1,
            Ok(Begin::InFlight { .. }) => {}
            Ok(Begin::Replay(_)) => break,
            other => panic!("{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    blocked.join().unwrap().unwrap();
    assert!(refused_after_a_lease > 0, "the body was over within a lease");
}

#[test]
fn outside_a_runtime_the_store_says_so() {
    let server = RedisServer::start();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime.block_on(RedisStore::connect(&server.url())).unwrap();
    drop(runtime);
    let key = idempotent_runtime::key::RecordKey::from("k");
    let mut get = store.load(&key);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(error)) = std::pin::Pin::new(&mut get).poll(&mut context) else {
        panic!("it is answered");
    };
    assert_eq!(error.to_string(), "a redis store is used outside a tokio runtime");
}

#[cfg(feature = "redis-tls")]
mod tls {
    use super::*;
    use idempotent_runtime::store::StoreErrorKind;
    use support::cluster::Cluster;
    use support::redis::installed;
    use support::tls::Authority;

    fn not_trusted(port: u16) -> String {
        format!(
            "127.0.0.1:{port} is not trusted: invalid peer certificate: UnknownIssuer\n\
             help: root_certificate(pem)"
        )
    }

    #[tokio::test]
    async fn over_tls_with_the_right_authority() {
        let authority = Authority::new();
        let (server, port) = authority.start(&installed(), "no");
        let by_tls = |url: &str| RedisStore::builder(url).root_certificate(authority.root());
        for host in ["127.0.0.1", "localhost"] {
            let store = by_tls(&format!("rediss://{host}:{port}")).connect().await.unwrap();
            runs_once(store).await;
        }
        assert_eq!(records_in(&server, 0).await, 1);
        let connect =
            || async { by_tls(&format!("rediss://127.0.0.1:{port}/1")).connect().await.unwrap() };
        wakes(connect().await, connect().await).await;
    }

    #[tokio::test]
    async fn an_authority_that_is_not_trusted_is_refused() {
        let (ours, theirs) = (Authority::new(), Authority::new());
        let (_server, port) = theirs.start(&installed(), "no");
        let url = format!("rediss://127.0.0.1:{port}");
        let wrong = RedisStore::builder(&url).root_certificate(ours.root());
        for builder in [wrong, RedisStore::builder(&url)] {
            let error = builder.connect().await.unwrap_err();
            assert_eq!(error.to_string(), not_trusted(port));
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        }
    }

    #[tokio::test]
    async fn a_server_that_asks_for_a_certificate_gets_one() {
        let authority = Authority::new();
        let (_server, port) = authority.start(&installed(), "yes");
        let url = format!("rediss://127.0.0.1:{port}");
        let (certificate, key) = authority.certificate();
        let known = RedisStore::builder(&url)
            .root_certificate(authority.root())
            .client_certificate(certificate, key);
        runs_once(known.connect().await.unwrap()).await;
        let unknown = RedisStore::builder(&url).root_certificate(authority.root());
        let error = unknown.connect().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        assert_eq!(
            error.to_string(),
            format!(
                "127.0.0.1:{port} asks for a certificate\n\
                 help: client_certificate(certificate, key)"
            )
        );
    }

    #[tokio::test]
    async fn a_cluster_over_tls() {
        let authority = Authority::new();
        let port = support::redis::free_port();
        let arguments = authority.arguments(port, "no");
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        arguments.extend(["--tls-cluster", "yes"]);
        let _node = Cluster::of_one(&installed(), &arguments, "secret").await;
        let node = format!("rediss://:secret@127.0.0.1:{port}");
        let store = RedisStore::cluster([&node]).root_certificate(authority.root());
        runs_once(store.connect().await.unwrap()).await;
        let ours = Authority::new();
        let wrong = RedisStore::cluster([&node]).root_certificate(ours.root());
        let error = wrong.connect().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        let text = error.to_string();
        assert!(text.contains("is not trusted: "), "{text}");
        assert!(text.contains("invalid peer certificate: UnknownIssuer"), "{text}");
    }
}
