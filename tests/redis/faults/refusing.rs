//! Servers that refuse commands, each for a reason of its own.

use crate::site::{LEASE, Process, Site, strong};
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{BodyRun, Error, ErrorKind, Idempotency};
use std::path::Path;
use std::time::Duration;
use support::redis::{RedisServer, binaries, info, installed};
use support::{OwnError, until_async};

/// Callers that do not wait for others.
async fn process(site: &Site) -> Process {
    site.process_with(LEASE, strong().with_wait(Duration::ZERO)).await
}

/// A new call is refused like this, and its body does not run.
async fn assert_refused(process: &Process, kind: ErrorKind, code: &str) {
    let error = process.run("new").await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (kind, BodyRun::DidNotRun), "{error}");
    assert!(error.to_string().contains(code), "{error}");
    assert!(!error.store_error().unwrap().may_have_taken_effect(), "{error}");
}

/// The same of a key whose last call failed: its record is replaced, by a script.
async fn assert_refused_again(process: &Process, kind: ErrorKind) {
    let freed = process.idem.operation("op").key("freed");
    let error = freed.run(async { Ok::<u8, Error>(1) }).await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (kind, BodyRun::DidNotRun), "{error}");
    assert!(!error.store_error().unwrap().may_have_taken_effect(), "{error}");
}

/// Leaves a record that is free for the next call.
async fn fail(process: &Process) {
    let failed = process.idem.operation("op").key("freed");
    let error = failed.run(async { Err::<u8, _>(OwnError::new("failed")) }).await.unwrap_err();
    assert_eq!(error.0, "failed");
}

/// A record still answers, for each state that it can be in.
async fn assert_reads(process: &Process, other: &Process) {
    assert_eq!(other.run("done").await.unwrap(), 1, "an answer is replayed");
    let error = other.run("running").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InProgress, "{error}");
    assert!(error.retry_after().unwrap() <= LEASE);
    let error = process.run("running").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InProgress, "{error}");
}

/// Refuses writes, checks what callers are told, and takes writes again.
async fn refusing(site: &Site, refuse: &[&[&str]], kind: ErrorKind, code: &str, end: &[&[&str]]) {
    let process = process(site).await;
    let other = self::process(site).await;
    assert_eq!(process.run("done").await.unwrap(), 1);
    fail(&process).await;
    let held = process.hold("running").await;
    for words in refuse {
        site.command(words).await;
    }
    assert_refused(&other, kind, code).await;
    assert_refused_again(&other, kind).await;
    assert_reads(&process, &other).await;
    assert_eq!((site.runs.of("new"), site.state("new").await), (0, None));
    for words in end {
        site.command(words).await;
    }
    assert_eq!(held.end().await.unwrap(), 1);
    assert_eq!(other.run("running").await.unwrap(), 1);
    assert_eq!(other.run("new").await.unwrap(), 1);
    process.ends_clean().await;
    other.ends_clean().await;
}

/// Has a server that cannot write its snapshot.
async fn with_a_full_disk(binary: &Path) -> Site {
    let site = Site::start_with(binary, &[]).await;
    // A directory is where the snapshot should be.
    std::fs::create_dir(site.server.directory().join("dump.rdb")).unwrap();
    site.command(&["CONFIG", "SET", "save", "3600 1000000"]).await;
    site
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_save_still_replays() {
    for binary in binaries() {
        let site = with_a_full_disk(&binary).await;
        let process = process(&site).await;
        let other = self::process(&site).await;
        assert_eq!(process.run("done").await.unwrap(), 1);
        let held = process.hold("running").await;
        site.command(&["BGSAVE"]).await;
        until_async(|| async { info(&site.server, "rdb_last_bgsave_status").await == "err" }).await;
        assert_refused(&other, ErrorKind::StoreUnavailable, "MISCONF").await;
        let text = other.run("new").await.unwrap_err().to_string();
        assert!(text.ends_with("or CONFIG SET stop-writes-on-bgsave-error no"), "{text}");
        assert_reads(&process, &other).await;
        site.command(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]).await;
        assert_eq!(held.end().await.unwrap(), 1);
        assert_eq!(other.run("new").await.unwrap(), 1);
        process.ends_clean().await;
        other.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_tells_what_it_has() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let full: &[&[&str]] = &[&["CONFIG", "SET", "maxmemory", "1"]];
        let roomy: &[&[&str]] = &[&["CONFIG", "SET", "maxmemory", "0"]];
        refusing(&site, full, ErrorKind::StoreFull, "OOM", roomy).await;
    }
}

/// A record that is there takes no room, but the attempt that would follow it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_a_key_that_failed_before() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let process = process(&site).await;
        let failed = process.idem.operation("op").key("freed");
        let error = failed.run(async { Err::<u8, _>(OwnError::new("failed")) }).await.unwrap_err();
        assert_eq!(error.0, "failed");
        site.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
        let again = process.idem.operation("op").key("freed");
        let error = again.run(async { Ok::<u8, Error>(1) }).await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreFull, false), "{binary:?}");
        site.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
        let again = process.idem.operation("op").key("freed");
        assert_eq!(again.run(async { Ok::<u8, Error>(1) }).await.unwrap(), 1);
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_without_replicas_tells_what_it_has() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let alone: &[&[&str]] = &[&["CONFIG", "SET", "min-replicas-to-write", "1"]];
        let enough: &[&[&str]] = &[&["CONFIG", "SET", "min-replicas-to-write", "0"]];
        refusing(&site, alone, ErrorKind::NotReplicated, "NOREPLICAS", enough).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_tells_what_it_has() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let demoted: &[&[&str]] = &[&["REPLICAOF", "127.0.0.1", "1"]];
        let promoted: &[&[&str]] = &[&["REPLICAOF", "NO", "ONE"]];
        refusing(&site, demoted, ErrorKind::StoreUnavailable, "READONLY", promoted).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_lost_a_permission_is_named_it_and_still_gets_replays() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let forbid: &[&[&str]] = &[&["ACL", "SETUSER", "default", "-set"]];
        let permit: &[&[&str]] = &[&["ACL", "SETUSER", "default", "+@all"]];
        refusing(&site, forbid, ErrorKind::Misconfigured, "'set'", permit).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_runs_a_long_script_refuses_everything() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let process = process(&site).await;
        assert_eq!(process.run("done").await.unwrap(), 1);
        site.command(&["CONFIG", "SET", "lua-time-limit", "1"]).await;
        let mut busy = site.server.connection().await;
        let endless = tokio::spawn(async move {
            let mut script = redis::cmd("EVAL");
            script.arg("while true do end").arg(0);
            script.query_async::<()>(&mut busy).await
        });
        let mut direct = site.direct.clone();
        until_async(|| {
            let mut direct = direct.clone();
            async move {
                let got = redis::cmd("GET").arg("k").query_async::<redis::Value>(&mut direct).await;
                got.is_err_and(|error| error.code() == Some("BUSY"))
            }
        })
        .await;
        assert_refused(&process, ErrorKind::StoreUnavailable, "BUSY").await;
        let error = process.run("done").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreUnavailable, "{error}");
        let () = redis::cmd("SCRIPT").arg("KILL").query_async(&mut direct).await.unwrap();
        endless.await.unwrap().unwrap_err();
        assert_eq!(process.run("done").await.unwrap(), 1);
        assert_eq!(process.run("new").await.unwrap(), 1);
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_without_its_master_refuses_everything() {
    let site = Site::start().await;
    let process = process(&site).await;
    assert_eq!(process.run("done").await.unwrap(), 1);
    site.command(&["CONFIG", "SET", "replica-serve-stale-data", "no"]).await;
    site.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    // A write is refused for another reason before a read is refused for this one.
    assert_refused(&process, ErrorKind::StoreUnavailable, "READONLY").await;
    let error = process.op("done").get().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
    assert!(error.to_string().contains("MASTERDOWN"), "{error}");
    let error = process.run("done").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable, "{error}");
    site.command(&["REPLICAOF", "NO", "ONE"]).await;
    assert_eq!(process.run("done").await.unwrap(), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_in_use_for_something_else_is_named() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let process = process(&site).await;
        site.command(&["LPUSH", &crate::site::name("new"), "x"]).await;
        let error = process.run("new").await.unwrap_err();
        assert_eq!((error.kind(), error.body()), (ErrorKind::Undecodable, BodyRun::DidNotRun));
        assert!(error.to_string().contains("something that is not a record"), "{error}");
        site.command(&["DEL", &crate::site::name("new")]).await;
        assert_eq!(process.run("new").await.unwrap(), 1);
        process.ends_clean().await;
    }
}

/// An instance without a proxy, which is told of the end of its connection at once.
async fn direct(site: &Site) -> Idempotency {
    let store = RedisStore::builder(&site.server.url()).timeout(LEASE).connect().await.unwrap();
    Idempotency::builder().store(store).config(strong()).build().unwrap()
}

async fn run(idem: &Idempotency, key: &str) -> Result<u32, idempotent_runtime::Error> {
    idem.operation("test.op").key(key).run(async { Ok(7) }).await
}

/// Ends every connection but the test's own, and waits until a call has noticed.
async fn refused_on_another_connection(
    site: &Site,
    idem: &Idempotency,
    kind: ErrorKind,
    text: &str,
) {
    site.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    until_async(|| async {
        let error = run(idem, "new").await.unwrap_err();
        assert_eq!(error.body(), BodyRun::DidNotRun);
        error.kind() == kind && error.to_string().contains(text)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_set_while_running_is_asked_for() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let idem = direct(&site).await;
        assert_eq!(run(&idem, "done").await.unwrap(), 7);
        site.command(&["CONFIG", "SET", "requirepass", "p"]).await;
        let asks = "the server asks for a password";
        refused_on_another_connection(&site, &idem, ErrorKind::Misconfigured, asks).await;
        site.command(&["CONFIG", "SET", "requirepass", ""]).await;
        until_async(|| async { run(&idem, "new").await.is_ok() }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_more_connections_is_named_as_such() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let idem = direct(&site).await;
        assert_eq!(run(&idem, "done").await.unwrap(), 7);
        site.command(&["CONFIG", "SET", "maxclients", "1"]).await;
        let reached = "max number of clients reached";
        refused_on_another_connection(&site, &idem, ErrorKind::StoreUnavailable, reached).await;
        let text = run(&idem, "new").await.unwrap_err().to_string();
        assert!(text.ends_with("help: CONFIG SET maxclients"), "{text}");
        site.command(&["CONFIG", "SET", "maxclients", "100"]).await;
        until_async(|| async { run(&idem, "new").await.is_ok() }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_still_reads_its_records_from_disk_is_waited_for() {
    let slow = ["--key-load-delay", "0", "--loading-process-events-interval-bytes", "1024"];
    let mut server = RedisServer::start_with(&installed(), &slow);
    let store = RedisStore::builder(&server.url()).timeout(LEASE).connect().await.unwrap();
    let idem = Idempotency::builder().store(store).config(strong()).build().unwrap();
    assert_eq!(run(&idem, "done").await.unwrap(), 7);
    let mut connection = server.connection().await;
    let fill = "for i = 1, 20000 do redis.call('SET', 'k' .. i, string.rep('x', 100)) end";
    let () = redis::cmd("EVAL").arg(fill).arg(0).query_async(&mut connection).await.unwrap();
    let () = redis::cmd("SAVE").query_async(&mut connection).await.unwrap();
    // Half a minute, if it is not told to be faster.
    server.restart_loading(&["--key-load-delay", "1500"]);
    until_async(|| async {
        let error = run(&idem, "new").await.unwrap_err();
        assert_eq!((error.kind(), error.body()), (ErrorKind::StoreUnavailable, BodyRun::DidNotRun));
        error.to_string().contains("LOADING")
    })
    .await;
    let error = run(&idem, "done").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable, "{error}");
    let mut connection = server.connection().await;
    let faster = ["SET", "key-load-delay", "0"];
    let () = redis::cmd("CONFIG").arg(&faster).query_async(&mut connection).await.unwrap();
    until_async(|| async { run(&idem, "new").await.is_ok() }).await;
    assert_eq!(run(&idem, "done").await.unwrap(), 7);
}
