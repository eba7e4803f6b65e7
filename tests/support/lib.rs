//! Support for the tests: instances on manual clocks, servers, proxies, and waiting for conditions.
#![allow(missing_docs, missing_debug_implementations)]

mod batch;
pub mod calls;
pub mod clock;
pub mod cluster;
pub mod counted;
pub mod database;
pub mod events;
pub mod fake;
pub mod guard;
pub mod history;
pub mod http;
pub mod journal;
pub mod kind;
pub mod load;
pub mod mariadb;
pub mod monitor;
pub mod nats;
pub mod patience;
pub mod pgbouncer;
pub mod plan;
pub mod postgres;
pub mod prometheus;
pub mod proxy;
pub mod rabbitmq;
pub mod recorded;
pub mod redis;
pub mod sentinel;
pub mod tls;
pub mod valve;
pub mod work;
pub mod worker;

use idempotent_runtime::store::{MemoryOptions, MemoryStore, State, Store};
use idempotent_runtime::testing::{FaultStore, Ledger, ManualClock};
use idempotent_runtime::{Config, Error, Idempotency, Mode, Operation};
pub use patience::Patience;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

pub const LEASE: Duration = Duration::from_secs(30);
pub const EXPIRE: Duration = Duration::from_secs(300);

/// An instance on a clock that can be moved, and a ledger of executions outside its store.
#[derive(Clone, Debug)]
pub struct Bench {
    pub idem: Idempotency,
    pub clock: ManualClock,
    pub ledger: Ledger,
    /// The store, seen from outside. Faults can be injected unless it is local.
    pub store: FaultStore,
}

/// Callers reach the store directly.
pub fn local() -> Bench {
    let clock = ManualClock::new();
    let memory: Arc<dyn Store> = Arc::new(memory(&clock));
    let store = FaultStore::around(Arc::clone(&memory));
    bench(clock, memory, store, strong())
}

/// Callers meet before they reach the store, as before one on the network.
pub fn remote() -> Bench {
    remote_with(strong())
}

pub fn remote_with(config: Config) -> Bench {
    let clock = ManualClock::new();
    let store = FaultStore::new(memory(&clock));
    bench(clock, Arc::new(store.clone()), store, config)
}

/// A second process on the same store.
pub fn neighbour(of: &Bench) -> Bench {
    let store = FaultStore::around(Arc::new(of.store.clone()));
    bench(of.clock.clone(), Arc::new(of.store.clone()), store, strong())
}

/// Both kinds of store, for behaviour that must not depend on it.
pub fn both() -> [Bench; 2] {
    [local(), remote()]
}

/// Strong mode, and waits that only end when the clock is moved.
pub fn strong() -> Config {
    Config::new().with_mode(Mode::Strong).with_wait(Duration::from_secs(5))
}

fn memory(clock: &ManualClock) -> MemoryStore {
    MemoryStore::with(MemoryOptions::new().clock(clock.clock()))
}

fn bench(clock: ManualClock, shared: Arc<dyn Store>, store: FaultStore, config: Config) -> Bench {
    let builder = Idempotency::builder().shared_store(shared).clock(clock.clock()).config(config);
    let idem = builder.build().expect("the configuration is valid");
    Bench { idem, clock, ledger: Ledger::new(), store }
}

impl Bench {
    pub fn op(&self) -> Operation<'_> {
        self.idem.operation("test.op").key("k")
    }

    /// Runs a body that notes its execution and returns its number.
    pub async fn run(&self) -> Result<usize, Error> {
        self.op().run(async { Ok(self.ledger.record("k")) }).await
    }

    /// As [`run`](Self::run), in a task of its own.
    pub fn spawn(&self) -> tokio::task::JoinHandle<Result<usize, Error>> {
        let bench = self.clone();
        tokio::spawn(async move { bench.run().await })
    }

    pub fn runs(&self) -> usize {
        self.ledger.ran("k")
    }

    /// Runs a body that notes its execution and then never ends.
    pub fn hang(&self) -> tokio::task::JoinHandle<Result<usize, Error>> {
        let bench = self.clone();
        tokio::spawn(async move {
            bench
                .op()
                .run(async {
                    bench.ledger.record("k");
                    std::future::pending().await
                })
                .await
        })
    }

    /// Moves the clock until a key that nobody runs is free again.
    ///
    /// # Panics
    /// It was free only because its lease had run out.
    pub async fn until_released(&self, op: &Operation<'_>) {
        until_async(|| async {
            self.clock.advance(Duration::from_millis(10));
            let held = op.get().await.unwrap().filter(|it| it.head.state == State::Processing);
            let Some(record) = held else { return true };
            assert!(!record.head.lease_left(record.ttl).is_zero(), "it is left to its lease");
            false
        })
        .await;
    }

    /// Nothing runs, nothing waits, nothing is renewed.
    pub async fn at_rest(&self) {
        until(|| self.idem.in_flight() == 0).await;
    }
}

/// How large a test is to be: `LONG_TESTS` makes it `long`.
pub fn size(usual: usize, long: usize) -> usize {
    pick(usual, long)
}

/// Which bounds a test has: `LONG_TESTS` makes them `long`.
pub fn pick<T>(usual: T, long: T) -> T {
    if std::env::var_os("LONG_TESTS").is_some() { long } else { usual }
}

/// Waits for a condition.
pub async fn until(mut condition: impl FnMut() -> bool) {
    let mut patience = Patience::usual();
    while !condition() {
        assert!(!patience.is_over(), "the condition did not come true");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits for `future`, and moves the clock on which it pauses.
pub async fn while_time_passes<F: Future>(advance: impl Fn(Duration), future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut patience = Patience::usual();
    loop {
        assert!(!patience.is_over(), "the future did not end");
        tokio::select! {
            output = &mut future => return output,
            () = tokio::time::sleep(Duration::from_millis(1)) => {
                advance(Duration::from_millis(10));
            }
        }
    }
}

/// Waits for a condition that takes a look at something.
pub async fn until_async<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    let mut patience = Patience::usual();
    while !condition().await {
        assert!(!patience.is_over(), "the condition did not come true");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Polls `future` at most `polls` times, then drops it. `Some` if it was ready by then.
pub async fn poll_at_most<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    struct Limited<F> {
        future: Pin<Box<F>>,
        left: usize,
    }
    impl<F: Future> Future for Limited<F> {
        type Output = Option<F::Output>;
        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            self.left -= 1;
            match self.future.as_mut().poll(context) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending if self.left == 0 => Poll::Ready(None),
                Poll::Pending => {
                    // Polled again whether or not anything happened: the limit is on polls.
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        }
    }
    Limited { future: Box::pin(future), left: polls }.await
}

/// An error of the body's own.
#[derive(Debug)]
pub struct OwnError(pub String);

impl OwnError {
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<Error> for OwnError {
    fn from(error: Error) -> Self {
        Self(format!("refused: {error}"))
    }
}
