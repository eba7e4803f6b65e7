//! A server, and processes that reach it through a proxy each.

use crate::message;
use ::redis::AsyncCommands;
use ::redis::aio::MultiplexedConnection;
use idempotent_runtime::instance::Drained;
use idempotent_runtime::protocol::{BeginRequest, IfGone, StoreExt as _};
use idempotent_runtime::store::{Claim, RedisStore, State, Store, StoreErrorKind, Token};
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Abandon, Config, Current, Error, Idempotency, Mode, Operation, current};
use std::collections::BTreeMap;
use std::mem;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use support::proxy::Proxy;
use support::redis::{RedisServer, age, installed, record_name};
use support::{poll_at_most, until, until_async};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Long enough not to run out while a test does something else.
pub(crate) const LEASE: Duration = Duration::from_secs(5);
/// For tests that wait for the end of a lease.
pub(crate) const SHORT_LEASE: Duration = Duration::from_secs(1);
/// When a process gives up on an answer.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(300);
pub(crate) const EXPIRE: Duration = Duration::from_secs(300);

/// A server, and what ran on behalf of its records.
pub(crate) struct Site {
    pub(crate) server: RedisServer,
    pub(crate) runs: Runs,
    /// A connection of the test's own, past all proxies.
    pub(crate) direct: MultiplexedConnection,
}

impl Site {
    /// The machine's server, with nothing on disk.
    pub(crate) async fn start() -> Self {
        Self::start_with(&installed(), &[]).await
    }

    pub(crate) async fn start_with(binary: &Path, arguments: &[&str]) -> Self {
        let server = RedisServer::start_with(binary, arguments);
        let direct = server.connection().await;
        let site = Self { server, runs: Runs::default(), direct };
        site.load_scripts().await;
        site
    }

    /// Has every script executed once, so that a test meets none that the server has not seen.
    pub(crate) async fn load_scripts(&self) {
        let store = RedisStore::connect(&self.server.url()).await.unwrap();
        let key = idempotent_runtime::key::RecordKey::from("scripts");
        let claim = Claim::Lease { lease: LEASE, linger: EXPIRE, abandon: Abandon::Retry };
        let token = Token::random();
        let request = BeginRequest { token, fingerprint: None, fence_seed: 1, claim };
        let attempt = request.first_attempt();
        store.begin(&key, &request).await.unwrap();
        store.renew(&key, &attempt, LEASE).await.unwrap();
        store.watch(&key).await.unwrap();
        store.complete(&key, &attempt, None, EXPIRE, IfGone::Rewrite).await.unwrap();
        store.forget(&key, true).await.unwrap();
    }

    /// A process that gives up on the server soon.
    pub(crate) async fn process(&self) -> Process {
        self.process_with(TIMEOUT, strong()).await
    }

    pub(crate) async fn process_with(&self, timeout: Duration, config: Config) -> Process {
        let proxy = Proxy::start(&self.server.address());
        // On a busy machine the first answer may take longer than a process is to wait for later ones.
        let store = loop {
            match RedisStore::builder(&proxy.url()).timeout(timeout).connect().await {
                Ok(store) => break store,
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}"),
            }
        };
        let idem = Idempotency::builder().store(store).config(config).build().unwrap();
        Process { idem, proxy, runs: self.runs.clone() }
    }

    /// Ends the server without a warning and starts it again with what it has on disk.
    pub(crate) async fn restart(&mut self) {
        self.server.restart();
        self.direct = self.server.connection().await;
    }

    /// The bytes of a record.
    pub(crate) async fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        self.direct.clone().get(name(key)).await.unwrap()
    }

    pub(crate) async fn state(&self, key: &str) -> Option<State> {
        self.bytes(key).await.and_then(|bytes| message::state(&bytes))
    }

    pub(crate) async fn until_state(&self, key: &str, state: impl Into<Option<State>>) {
        let state = state.into();
        until_async(|| async { self.state(key).await == state }).await;
    }

    /// Time to live of a record.
    pub(crate) async fn ttl(&self, key: &str) -> Duration {
        let millis: i64 = self.direct.clone().pttl(name(key)).await.unwrap();
        Duration::from_millis(millis.try_into().unwrap())
    }

    /// Waits until the lease of a record is renewed.
    pub(crate) async fn until_renewed(&self, key: &str) {
        // Compared with the look before: right after a renewal a record lives longest.
        let before = Mutex::new(self.ttl(key).await);
        until_async(|| async {
            let now = self.ttl(key).await;
            now > mem::replace(&mut *before.lock().unwrap(), now)
        })
        .await;
    }

    /// Lets time pass for one record.
    pub(crate) async fn age(&self, key: &str, by: Duration) {
        age(&mut self.direct.clone(), &name(key), by).await;
    }

    /// Sends a command past all proxies.
    pub(crate) async fn command(&self, words: &[&str]) -> ::redis::Value {
        let mut command = ::redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.direct.clone()).await.unwrap()
    }

    /// How often the server has executed a command, also on behalf of scripts.
    pub(crate) async fn executed(&self, command: &str) -> usize {
        let mut info = ::redis::cmd("INFO");
        let text: String =
            info.arg("commandstats").query_async(&mut self.direct.clone()).await.unwrap();
        let line =
            text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }
}

/// Strong mode, and waits that end before a lease does.
pub(crate) fn strong() -> Config {
    let config = Config::new().with_mode(Mode::Strong).with_wait(LEASE);
    config.with_lease(LEASE).with_expire(EXPIRE)
}

/// As [`strong`], for tests that wait for the end of a lease.
pub(crate) fn short() -> Config {
    strong().with_lease(SHORT_LEASE)
}

/// The name of a key's record.
pub(crate) fn name(key: &str) -> String {
    static NAMES: LazyLock<Idempotency> = LazyLock::new(|| Idempotency::in_memory().unwrap());
    record_name(&NAMES.operation(OPERATION).key(key).record_key().unwrap())
}

const OPERATION: &str = "test.op";

/// Which bodies ran, outside the store: how often, and with which fences.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    ledger: Ledger,
    fences: Arc<Mutex<BTreeMap<String, Vec<u64>>>>,
}

impl Runs {
    /// To be called by a body. Returns how often it has run.
    pub(crate) fn record(&self, key: &str) -> usize {
        let fence = current().unwrap().fence();
        self.fences.lock().unwrap().entry(key.to_owned()).or_default().push(fence);
        self.ledger.record(key)
    }

    pub(crate) fn of(&self, key: &str) -> usize {
        self.ledger.ran(key)
    }

    fn fences_grow(&self) {
        for (key, fences) in &*self.fences.lock().unwrap() {
            assert!(fences.is_sorted_by(|a, b| a < b), "fences of {key}: {fences:?}");
        }
    }
}

/// One process: an instance on a connection of its own.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) idem: Idempotency,
    pub(crate) proxy: Proxy,
    runs: Runs,
}

impl Process {
    pub(crate) fn op(&self, key: &str) -> Operation<'_> {
        self.idem.operation(OPERATION).key(key)
    }

    /// Runs a body that notes its execution and returns its number.
    pub(crate) async fn run(&self, key: &str) -> Result<usize, Error> {
        self.op(key).run(async { Ok(self.runs.record(key)) }).await
    }

    /// As [`run`](Self::run), in a task of its own.
    pub(crate) fn spawn(&self, key: &str) -> JoinHandle<Result<usize, Error>> {
        let (idem, runs, key) = (self.idem.clone(), self.runs.clone(), key.to_owned());
        tokio::spawn(async move {
            let op = idem.operation(OPERATION).key(&key);
            op.run(async { Ok(runs.record(&key)) }).await
        })
    }

    /// As [`spawn`](Self::spawn), and returns when the call has met those before it in this process.
    pub(crate) async fn spawn_behind(&self, key: &str) -> JoinHandle<Result<usize, Error>> {
        let (idem, runs, key) = (self.idem.clone(), self.runs.clone(), key.to_owned());
        let (says, polled) = oneshot::channel();
        let call = tokio::spawn(async move {
            let op = idem.operation(OPERATION).key(&key);
            let mut call = pin!(op.run(async { Ok(runs.record(&key)) }));
            assert!(poll_at_most(1, &mut call).await.is_none(), "it did not have to wait");
            let _ = says.send(());
            call.await
        });
        polled.await.expect("the call has ended");
        call
    }

    /// Calls, and returns when the body runs; it ends when it is told to.
    pub(crate) async fn hold(&self, key: &str) -> Held {
        self.hold_as(key, |op| op).await
    }

    pub(crate) async fn hold_as(
        &self,
        key: &str,
        choose: impl for<'a> Fn(Operation<'a>) -> Operation<'a> + Send + 'static,
    ) -> Held {
        let (idem, runs, key) = (self.idem.clone(), self.runs.clone(), key.to_owned());
        let (says, began) = oneshot::channel();
        let (go, told) = oneshot::channel();
        let call = tokio::spawn(async move {
            let (mut says, mut told) = (Some(says), Some(told));
            loop {
                let op = choose(idem.operation(OPERATION).key(&key));
                let body = async {
                    let run = runs.record(&key);
                    let _ = says.take().unwrap().send(current().unwrap());
                    match told.take().unwrap().await {
                        Ok(Told::Return) => Ok(run),
                        Ok(Told::Panic) => panic!("told to"),
                        Err(_) => std::future::pending().await,
                    }
                };
                let answer: Result<usize, Error> = op.run(body).await;
                match answer {
                    // On a busy machine the server may take longer than the process waits for it.
                    Err(error) if says.is_some() && error.is_retryable() => {}
                    answer => break answer,
                }
            }
        });
        Held { attempt: began.await.expect("the body does not run"), go, call }
    }

    /// Nothing runs, waits, is renewed or is sent any more, and each attempt had a greater fence
    /// than those before it.
    pub(crate) async fn ends_clean(self) {
        until(|| self.idem.in_flight() == 0).await;
        assert_eq!(self.idem.shutdown(Duration::from_secs(30)).await, Drained::All);
        self.runs.fences_grow();
    }
}

#[derive(Debug)]
enum Told {
    Return,
    Panic,
}

/// A call whose body runs.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) attempt: Current,
    go: oneshot::Sender<Told>,
    call: JoinHandle<Result<usize, Error>>,
}

impl Held {
    /// Lets the body return its number.
    pub(crate) fn finish(self) -> JoinHandle<Result<usize, Error>> {
        self.go.send(Told::Return).ok().unwrap();
        self.call
    }

    /// Lets the body return its number, and waits for what the caller gets.
    pub(crate) async fn end(self) -> Result<usize, Error> {
        self.finish().await.unwrap()
    }

    /// Lets the body panic, and waits until the caller does.
    pub(crate) async fn panic(self) {
        self.go.send(Told::Panic).ok().unwrap();
        assert!(self.call.await.unwrap_err().is_panic());
    }

    /// Drops the caller's future.
    pub(crate) async fn drop_call(self) {
        self.call.abort();
        assert!(self.call.await.unwrap_err().is_cancelled());
    }
}
