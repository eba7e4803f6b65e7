//! Large answers, which are not given to scripts.

use crate::site::{Process, Site, name, short, strong};
use idempotent_runtime::store::{RedisStore, State};
use idempotent_runtime::{Error, ErrorKind, Idempotency, Recorded};
use std::time::Duration;
use support::proxy::{Command, Fault, Gate, Proxy};
use support::redis::{RedisServer, binaries};
use support::until_async;
use tokio::sync::{Barrier, oneshot};

/// Longer than any test takes: nothing is polled, renewed or sent again meanwhile.
const LONG: Duration = Duration::from_secs(120);

async fn quiet(site: &Site) -> Process {
    let config = strong().with_lease(LONG * 3).with_wait(LONG * 2).with_retry_interval(LONG);
    site.process_with(LONG, config).await
}

fn large(of: char) -> String {
    of.to_string().repeat(100_000)
}

/// A call whose body returns a large answer after `before`.
async fn call(
    process: &Process,
    key: &str,
    of: char,
    before: impl Future<Output = ()> + Send,
) -> Result<String, Error> {
    let body = async {
        before.await;
        Ok(large(of))
    };
    process.op(key).run(body).await
}

/// The record is the only thing that the server has.
async fn nothing_is_left_beside(site: &Site, key: &str) {
    let ::redis::Value::Array(names) = site.command(&["KEYS", "*"]).await else { panic!() };
    assert_eq!(names, [::redis::Value::BulkString(name(key).into_bytes())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_answer_is_kept_out_of_scripts() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let store = RedisStore::connect(&site.server.url()).await.unwrap();
        let expected: &[&str] = match store.server_version() {
            it if it.starts_with("redis 6.2") => &["SET", "GET", "EVALSHA"],
            it if it.starts_with("redis 7.") || it.starts_with("redis 8.0") => {
                &["SET", "MULTI", "SET", "EVALSHA", "DEL", "EXEC"]
            }
            _ => &["SET", "SET"],
        };
        let process = quiet(&site).await;
        process.proxy.forget();
        assert_eq!(call(&process, "k", 'a', async {}).await.unwrap(), large('a'));
        let sent: Vec<_> = process.proxy.commands().iter().map(Command::name).collect();
        assert_eq!(sent, expected, "{}", store.server_version());
        assert!(site.ttl("k").await > crate::site::EXPIRE / 2);
        assert_eq!(call(&process, "k", 'b', async {}).await.unwrap(), large('a'));
        nothing_is_left_beside(&site, "k").await;
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_answer_does_not_replace_that_of_another_attempt() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let (process, other) = (quiet(&site).await, quiet(&site).await);
        let meanwhile = async {
            site.command(&["DEL", &name("k")]).await;
            assert_eq!(call(&other, "k", 'b', async {}).await.unwrap(), large('b'));
        };
        let error = call(&process, "k", 'a', meanwhile).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Superseded);
        assert_eq!(call(&process, "k", 'c', async {}).await.unwrap(), large('b'));
        nothing_is_left_beside(&site, "k").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_answer_wakes_the_callers_that_wait() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let (process, other) = (quiet(&site).await, quiet(&site).await);
        let (runs, began) = oneshot::channel();
        let is_awaited = async {
            runs.send(()).unwrap();
            let is_marked = async || site.bytes("k").await.is_some_and(|bytes| bytes[2] == 1);
            until_async(is_marked).await;
        };
        let waiting = async {
            began.await.unwrap();
            call(&other, "k", 'b', async {}).await
        };
        let (ran, waited) = tokio::join!(call(&process, "k", 'a', is_awaited), waiting);
        assert_eq!((ran.unwrap(), waited.unwrap()), (large('a'), large('a')));
        nothing_is_left_beside(&site, "k").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_answer_is_recorded_by_a_server_without_scripts_or_room() {
    for binary in binaries() {
        for before in [&["SCRIPT", "FLUSH"][..], &["CONFIG", "SET", "maxmemory", "1"]] {
            let site = Site::start_with(&binary, &[]).await;
            let (process, other) = (quiet(&site).await, quiet(&site).await);
            let prepared = async { drop(site.command(before).await) };
            assert_eq!(call(&process, "k", 'a', prepared).await.unwrap(), large('a'));
            process.ends_clean().await;
            site.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
            assert_eq!(call(&other, "k", 'b', async {}).await.unwrap(), large('a'), "{before:?}");
            nothing_is_left_beside(&site, "k").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_needs_no_more_rights_for_large_answers() {
    for binary in binaries() {
        for rights in ["-multi", "-exec", "-rename", "-multi -rename", "-multi -exec -rename"] {
            let server = RedisServer::start_with(&binary, &[]);
            let mut user = ::redis::cmd("ACL");
            user.arg(&["SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"]);
            user.arg(rights.split(' ').collect::<Vec<_>>());
            let mut direct = server.connection().await;
            user.exec_async(&mut direct).await.unwrap();
            let url = format!("redis://app:secret@{}", server.address());
            let store = RedisStore::connect(&url).await.unwrap();
            let idem = Idempotency::builder().store(store).config(strong()).build().unwrap();
            for key in ["k", "l", "k"] {
                let run = async { Ok::<_, Error>(large('a')) };
                let answer = idem.operation("large").key(key).run_detailed(run).await.unwrap();
                assert_eq!(answer.value, large('a'), "{rights}");
                assert_eq!(answer.recorded, Recorded::Yes, "{rights}");
            }
            let left: usize = ::redis::cmd("DBSIZE").query_async(&mut direct).await.unwrap();
            assert_eq!(left, 2, "{rights}");
        }
    }
}

/// A server that refuses `MULTI` runs what follows by itself, and commands of other processes in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_answers_are_not_mixed_up_by_a_server_without_transactions() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let (process, other) = (quiet(&site).await, quiet(&site).await);
        let (held, others) = (Gate::new(), Gate::new());
        for (process, gate) in [(&process, &held), (&other, &others)] {
            let refused = "NOPERM this user has no permissions to run the 'multi' command";
            let is_transaction = |command: &Command| command.name() == "MULTI";
            process.proxy.fault_always(is_transaction, Fault::Refuse(refused.into()));
            // The script that compares, behind the record that it takes.
            let is_move =
                |command: &Command| command.name() == "EVALSHA" && command.words()[2] == b"2";
            process.proxy.fault_always(is_move, Fault::HoldRequest(gate.clone()));
        }
        let is_held = async |gate: &Gate| until_async(async || gate.held() > 0).await;
        let (runs, began) = oneshot::channel();
        // The record is lost, and another process runs the body again. It is about to replace its record, and so is the
        // first one.
        let lost = async {
            site.command(&["DEL", &name("k")]).await;
            runs.send(()).unwrap();
            is_held(&others).await;
        };
        let second = async {
            began.await.unwrap();
            call(&other, "k", 'b', async {}).await
        };
        let go_on = async {
            is_held(&held).await;
            others.open();
            until_async(async || site.state("k").await == Some(State::Succeeded)).await;
            held.open();
        };
        let (first, second, ()) = tokio::join!(call(&process, "k", 'a', lost), second, go_on);
        let replay = call(&process, "k", 'c', async {}).await;
        // Told by their first letters.
        let letter = |answer: Result<String, Error>| answer.map(|it| it[..1].to_owned());
        assert_eq!(letter(first).unwrap_err().kind(), ErrorKind::Superseded);
        assert_eq!(letter(second).unwrap(), "b");
        assert_eq!(letter(replay).unwrap(), "b");
        nothing_is_left_beside(&site, "k").await;
    }
}

/// What begins a transaction and cannot end it queues every later command of its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_does_not_stay_in_a_transaction_that_cannot_end() {
    let two_answers = async |process: &Process| {
        for key in ["k", "l"] {
            let run = async { Ok::<_, Error>(large('a')) };
            let answer = process.op(key).run_detailed(run).await.unwrap();
            assert_eq!(answer.recorded, Recorded::Yes);
        }
    };
    for binary in binaries() {
        // A server that was told to have no `EXEC`.
        let site = Site::start_with(&binary, &["--rename-command", "EXEC", ""]).await;
        let process = quiet(&site).await;
        two_answers(&process).await;
        process.ends_clean().await;
        // A proxy that does not let it through.
        for refusal in ["ERR unsupported command", "NOPERM not here", "READONLY not here"] {
            let site = Site::start_with(&binary, &[]).await;
            let process = quiet(&site).await;
            let is_end = |command: &Command| command.name() == "EXEC";
            process.proxy.fault_always(is_end, Fault::Refuse(refusal.into()));
            two_answers(&process).await;
            process.ends_clean().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_leaves_no_connection_in_a_transaction() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &["--rename-command", "EXEC", ""]).await;
        let process = quiet(&site).await;
        let held = Gate::new();
        let is_transaction = |command: &Command| command.name() == "MULTI";
        process.proxy.fault_always(is_transaction, Fault::HoldRequest(held.clone()));
        tokio::select! {
            // A server that swaps by one command.
            answer = call(&process, "k", 'a', async {}) => assert_eq!(answer.unwrap(), large('a')),
            () = until_async(async || held.held() > 0) => {}
        }
        held.open();
        site.until_state("k", State::Succeeded).await;
        assert_eq!(call(&process, "l", 'b', async {}).await.unwrap(), large('b'));
        process.ends_clean().await;
    }
}

/// Its end is refused after the lease, when nothing waits for it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_recovers_from_a_transaction_whose_refusal_came_too_late() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &["--rename-command", "EXEC", ""]).await;
        let process = site.process_with(LONG, short()).await;
        let held = Gate::new();
        let is_transaction = |command: &Command| command.name() == "MULTI";
        process.proxy.fault_at(1, is_transaction, Fault::HoldRequest(held.clone()));
        let run = async { Ok::<_, Error>(large('a')) };
        drop(process.op("k").run_detailed(run).await.unwrap());
        site.until_state("k", State::Succeeded).await;
        held.open();
        for key in ["l", "m"] {
            assert_eq!(call(&process, key, 'b', async {}).await.unwrap(), large('b'));
        }
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_transactions_that_cannot_end_are_both_made_up_for() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &["--rename-command", "EXEC", ""]).await;
        let process = quiet(&site).await;
        let both = Barrier::new(2);
        let answer = async |key: &str| {
            let body = async {
                both.wait().await;
                Ok::<_, Error>(large('a'))
            };
            process.op(key).run_detailed(body).await.unwrap().recorded
        };
        assert_eq!(tokio::join!(answer("k"), answer("l")), (Recorded::Yes, Recorded::Yes));
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_another_program_uses_does_not_end_the_moves() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let process = quiet(&site).await;
        let taken = async {
            site.command(&["DEL", &name("k")]).await;
            site.command(&["LPUSH", &name("k"), "job"]).await;
        };
        drop(call(&process, "k", 'a', taken).await);
        let is_transaction = |command: &Command| command.name() == "MULTI";
        let before = process.proxy.sent(is_transaction).len();
        let connections = process.proxy.connections();
        assert_eq!(call(&process, "l", 'b', async {}).await.unwrap(), large('b'));
        assert_eq!(process.proxy.sent(is_transaction).len(), 2 * before);
        assert_eq!(process.proxy.connections(), connections);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_moves_no_large_answers_is_asked_once() {
    for binary in binaries() {
        let without_end = ["ACL", "SETUSER", "default", "-exec"];
        // One node has all slots, and takes no two keys of different ones at once.
        let whole_cluster = ["CLUSTER", "ADDSLOTSRANGE", "0", "16383"];
        let setups = [(&[][..], &without_end), (&["--cluster-enabled", "yes"], &whole_cluster)];
        for (arguments, setup) in setups {
            let server = RedisServer::start_with(&binary, arguments);
            let mut direct = server.connection().await;
            ::redis::cmd(setup[0]).arg(&setup[1..]).exec_async(&mut direct).await.unwrap();
            let proxy = Proxy::start(&server.address());
            let idem = until_connected(&proxy).await;
            for key in ["k", "l"] {
                let run = async { Ok::<_, Error>(large('a')) };
                let answer = idem.operation("large").key(key).run_detailed(run).await.unwrap();
                assert_eq!(answer.recorded, Recorded::Yes, "{setup:?}");
            }
            let sent: Vec<_> = proxy.commands().iter().map(Command::name).collect();
            let transactions = sent.iter().filter(|name| *name == "MULTI").count();
            assert!(transactions <= 1, "{setup:?}: {sent:?}");
        }
    }
}

/// An instance on a server that may need a moment until it is in order.
async fn until_connected(proxy: &Proxy) -> Idempotency {
    loop {
        let Ok(store) = RedisStore::connect(&proxy.url()).await else { continue };
        let idem = Idempotency::builder().store(store).config(strong()).build().unwrap();
        let run = idem.operation("small").key("k").run(async { Ok::<_, Error>(()) }).await;
        if run.is_ok() {
            return idem;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
