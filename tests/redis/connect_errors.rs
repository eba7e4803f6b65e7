//! Error texts for servers that cannot be used.

use idempotent_runtime::store::{RedisBuilder, RedisStore, StoreError, StoreErrorKind};
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Error, ErrorKind, Idempotency};
use std::time::Duration;
use support::cluster::Cluster;
use support::fake::Fake;
use support::redis::{RedisServer, free_port, installed};

async fn refused(builder: RedisBuilder) -> StoreError {
    match builder.timeout(Duration::from_millis(500)).connect().await {
        Ok(store) => panic!("connected: {store:?}"),
        Err(error) => error,
    }
}

/// The server can never be used like this.
async fn assert_misconfigured(builder: RedisBuilder, text: &str) {
    let error = refused(builder).await;
    assert_eq!((error.kind(), &*error.to_string()), (StoreErrorKind::Misconfigured, text));
}

/// The server is not there. It may be later.
async fn assert_unavailable(url: &str, text: &str) {
    let error = refused(RedisStore::builder(url)).await;
    assert_eq!((error.kind(), &*error.to_string()), (StoreErrorKind::Unavailable, text));
}

#[tokio::test]
async fn a_wrong_address() {
    for url in ["http://host/", "localhost:6379", "redis://host:port", ""] {
        let text = format!(
            "`{url}` is not the address of a redis server\n\
             help: redis://user:password@host:6379/0, rediss:// for TLS, unix:///path"
        );
        assert_misconfigured(RedisStore::builder(url), &text).await;
        assert_misconfigured(RedisStore::cluster([url]), &text).await;
        assert_misconfigured(RedisStore::sentinel("master", [url]), &text).await;
    }
    let none: [&str; 0] = [];
    let text = "no node was given\nhelp: name at least one";
    assert_misconfigured(RedisStore::cluster(none), text).await;
    let text = "no sentinel was given\nhelp: name at least one";
    assert_misconfigured(RedisStore::sentinel("master", none), text).await;
}

#[tokio::test]
async fn a_wrong_password() {
    let server = RedisServer::start_with(&installed(), &["--requirepass", "right"]);
    let with = |login: &str| RedisStore::builder(&format!("redis://{login}{}", server.address()));
    let asks = "the server asks for a password\nhelp: redis://user:password@host, or login()";
    let wrong = "the server does not take this user and password\nhelp: check user and password";
    assert_misconfigured(with(""), asks).await;
    assert_misconfigured(with(":wrong@"), wrong).await;
    assert_misconfigured(with("nobody:right@"), wrong).await;
    assert_misconfigured(with("").login("nobody", "right"), wrong).await;
    with(":right@").connect().await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_of_a_cluster() {
    let node = Cluster::of_one(&installed(), &[], "right").await;
    let cluster = |login: &str| RedisStore::cluster([format!("redis://{login}{}", node.address())]);
    let asks = "the server asks for a password\nhelp: redis://user:password@host, or login()";
    let wrong = "the server does not take this user and password\nhelp: check user and password";
    assert_misconfigured(cluster(""), asks).await;
    assert_misconfigured(cluster(":wrong@"), wrong).await;
    cluster("").login("default", "right").connect().await.unwrap();
    cluster(":right@").connect().await.unwrap();
}

#[tokio::test]
async fn a_user_who_may_not() {
    let server = RedisServer::start();
    let mut connection = server.connection().await;
    for command in ["info", "eval", "evalsha", "set"] {
        let mut user = redis::cmd("ACL");
        user.arg("SETUSER").arg(command).arg(&["on", ">p", "~*", "&*", "+@all"]);
        let () = user.arg(format!("-{command}")).query_async(&mut connection).await.unwrap();
    }
    let connect = |user| RedisStore::builder(&format!("redis://{user}:p@{}", server.address()));
    for command in ["info", "eval", "evalsha"] {
        let text = format!(
            "NoPerm: this user has no permissions to run the '{command}' command\n\
             help: let the user run the command"
        );
        assert_misconfigured(connect(command), &text).await;
    }
    // What every call needs first is found out by the first call, which does not run its body.
    let (store, ledger) = (connect("set").connect().await.unwrap(), Ledger::new());
    let idem = Idempotency::builder().store(store).build().unwrap();
    let run = async { Ok::<_, Error>(ledger.record("k")) };
    let error = idem.operation("op").key("k").run(run).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    let text = "redis: the user may not run the command or use the key: NOPERM this user has no permissions \
         to run the 'set' command\nhelp: ACL SETUSER user +set +get +pttl +eval +evalsha ~*";
    assert_eq!(error.message(), text);
    assert_eq!(ledger.total(), 0);
}

#[tokio::test]
async fn something_else_listens() {
    let http = Fake::http();
    let text = |port| {
        format!("127.0.0.1:{port} does not speak redis's protocol\nhelp: check host and port")
    };
    assert_misconfigured(RedisStore::builder(&http.url()), &text(http.port)).await;
    let silent = Fake::silent();
    let text = format!("127.0.0.1:{} cannot be reached: timed out", silent.port);
    assert_unavailable(&silent.url(), &text).await;
    let closing = Fake::closing(0);
    let error = refused(RedisStore::builder(&closing.url())).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    let start = format!("127.0.0.1:{} cannot be reached: ", closing.port);
    assert!(error.to_string().starts_with(&start), "{error}");
}

#[tokio::test]
async fn a_server_that_turns_connections_away() {
    use std::io::Write;
    let full = Fake::listen(0, |mut stream| {
        let _ = stream.write_all(b"-ERR max number of clients reached\r\n");
    });
    let text = "redis: the server takes no more connections: ERR max number of clients reached\n\
                help: CONFIG SET maxclients";
    assert_unavailable(&full.url(), text).await;
    let protected = Fake::listen(0, |mut stream| {
        let _ = stream.write_all(b"-DENIED Redis is running in protected mode\r\n");
    });
    let text = "redis: the server is in protected mode: DENIED Redis is running in protected mode\n\
                help: CONFIG SET protected-mode no, or a password";
    assert_misconfigured(RedisStore::builder(&protected.url()), text).await;
}

#[tokio::test]
async fn nobody_listens() {
    let port = free_port();
    let refusal = "cannot be reached: Connection refused (os error 111)";
    let text = format!("127.0.0.1:{port} {refusal}");
    assert_unavailable(&format!("redis://127.0.0.1:{port}"), &text).await;
    let text = "/no/such/socket cannot be reached: No such file or directory (os error 2)";
    assert_unavailable("unix:///no/such/socket", text).await;
    let nodes = [port, port].map(|port| format!("redis://127.0.0.1:{port}"));
    for builder in [RedisStore::cluster(&nodes), RedisStore::sentinel("master", &nodes)] {
        let error = refused(builder).await;
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.starts_with(&format!("127.0.0.1:{port} cannot be reached: ")), "{text}");
        assert!(text.contains("Connection refused"), "{text}");
    }
}

#[tokio::test]
async fn a_server_of_another_kind() {
    let server = RedisServer::start();
    let text = "the server is not in a cluster\nhelp: RedisStore::connect(url)";
    assert_misconfigured(RedisStore::cluster([server.url()]), text).await;
    let text = "the server is not a sentinel\nhelp: give the addresses of sentinels";
    assert_misconfigured(RedisStore::sentinel("master", [server.url()]), text).await;
    let text = "the server does not have this database\nhelp: check its number";
    assert_misconfigured(RedisStore::builder(&server.url()).database(99), text).await;
}

#[tokio::test]
async fn an_evicting_server() {
    let full = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let server = RedisServer::start_with(&installed(), &full);
    let text = "the server evicts records when it is full (maxmemory-policy is allkeys-lru), and \
                what it evicts runs again\n\
                help: CONFIG SET maxmemory-policy noeviction, or allow_eviction()";
    assert_misconfigured(RedisStore::builder(&server.url()), text).await;
    RedisStore::builder(&server.url()).allow_eviction().connect().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_too_old() {
    let five = Fake::redis(|command| match command {
        "HELLO" => "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n".to_owned(),
        "INFO" => "$22\r\nredis_version:5.0.14\r\n\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    });
    let text = "the server is too old: it does not know HELLO\n\
                help: use Redis 6.2 or later, or Valkey";
    assert_misconfigured(RedisStore::builder(&five.url()), text).await;
    let six = Fake::redis(|command| match command {
        "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
        "INFO" => "$22\r\nredis_version:6.0.16\r\n\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    });
    let text = "redis 6.0.16 is too old\nhelp: use Redis 6.2 or later, or Valkey";
    assert_misconfigured(RedisStore::builder(&six.url()), text).await;
}

#[cfg(not(feature = "redis-tls"))]
#[tokio::test]
async fn tls_without_its_feature() {
    let text = "`rediss://***@host` needs TLS\nhelp: enable the feature `redis-tls`";
    assert_misconfigured(RedisStore::builder("rediss://user:secret@host"), text).await;
}
