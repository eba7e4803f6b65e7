//! The thread that keeps leases alive and finishes what callers left behind.
//!
//! It has a small runtime of its own. A body that blocks its thread, a test's runtime that has
//! ended, or one that is shutting down does not stop it.

use super::faults::unanswered;
use super::registry::{Due, Registry};
use super::striped_counter::StripedCounter;
use crate::clock::Clock;
use crate::observe::{self, Cleanup, names};
use crate::protocol::{StoreExt as _, Updated};
use crate::race::{First, race};
use crate::store::{Store, Verb};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use crate::sync::{Notify, run_on_thread, spawn_on};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

/// Owns the thread. Dropping it lets the thread finish its jobs and end.
#[derive(Debug)]
pub(crate) struct Keeper {
    books: Arc<Books>,
    timers: Handle,
}

/// The attempts, calls and jobs that are under way, and the two flags that end them.
///
/// `SeqCst` for all of it, because a shutdown and a call look at each other's variables: the
/// shutdown sets `stopping` and then counts, the call is counted and then reads `stopping`. In one
/// total order at least one of them sees the other, so no call begins that nobody waits for. The
/// same holds between the end of a call and a shutdown that is about to sleep.
#[derive(Debug)]
struct Books {
    registry: Registry,
    calls: StripedCounter,
    jobs: AtomicUsize,
    /// Notified when an attempt, a call or a job ends.
    ended: Notify,
    /// No attempt is to begin any more.
    stopping: AtomicBool,
    /// The thread is to end.
    closed: AtomicBool,
}

impl Keeper {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        clock: Clock,
        cleanup_interval: Duration,
    ) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let timers = runtime.handle().clone();
        let books = Arc::new(Books {
            registry: Registry::new(),
            calls: StripedCounter::new(),
            jobs: AtomicUsize::new(0),
            ended: Notify::new(),
            stopping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        let keep = keep(Arc::clone(&books), store, clock, cleanup_interval, timers.clone());
        run_on_thread("idempotent-keeper", runtime, keep)?;
        Ok(Self { books, timers })
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.books.registry
    }

    /// The runtime whose timers outlive any caller's runtime.
    pub(crate) fn timers(&self) -> &Handle {
        &self.timers
    }

    /// Runs `job` to its end on the keeper's runtime.
    pub(crate) fn spawn(&self, job: impl Future<Output = ()> + Send + 'static) {
        let running = self.job();
        spawn_on(&self.timers, async move {
            job.await;
            drop(running);
        });
    }

    /// Runs `job` on the keeper's runtime. A shutdown does not wait for it.
    pub(crate) fn spawn_uncounted(&self, job: impl Future<Output = ()> + Send + 'static) {
        spawn_on(&self.timers, job);
    }

    /// Something that a shutdown waits for, until it is dropped.
    pub(crate) fn job(&self) -> Job {
        Job::start(&self.books)
    }

    /// A call is under way, from here until [`call_ended`](Self::call_ended).
    pub(crate) fn call_begins(&self) {
        self.books.calls.increment();
    }

    pub(crate) fn call_ended(&self) {
        self.books.calls.decrement();
        self.attempt_ended();
    }

    /// Notifies a shutdown that an attempt ended.
    pub(crate) fn attempt_ended(&self) {
        if self.books.stopping.load(SeqCst) {
            self.books.ended.notify_waiters();
        }
    }

    /// `true` if no attempt is to begin any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.books.stopping.load(SeqCst)
    }

    pub(crate) fn stop_accepting(&self) {
        self.books.stopping.store(true, SeqCst);
    }

    /// Resolves when no call is under way, no attempt runs and no job is left.
    pub(crate) async fn drained(&self) {
        loop {
            // Armed before the counts are read: what ends in between wakes it.
            let ended = self.books.ended.notified();
            let Books { registry, calls, jobs, .. } = &*self.books;
            if registry.count() == 0 && calls.get() == 0 && jobs.load(SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The thread ends by itself; waiting for it here could block a runtime.
        self.books.closed.store(true, SeqCst);
        self.books.registry.wake_keeper();
    }
}

/// A job that has not ended.
#[derive(Debug)]
pub(crate) struct Job(Arc<Books>);

impl Job {
    fn start(books: &Arc<Books>) -> Self {
        books.jobs.fetch_add(1, SeqCst);
        Self(Arc::clone(books))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.0.jobs.fetch_sub(1, SeqCst);
        self.0.ended.notify_waiters();
    }
}

/// The keeper's loop: look, renew what is due, clean up now and then, sleep.
async fn keep(
    books: Arc<Books>,
    store: Arc<dyn Store>,
    clock: Clock,
    cleanup_interval: Duration,
    timers: Handle,
) {
    let mut cleanup_at = clock.now().after(cleanup_interval);
    let mut cleanup: Option<Pin<Box<dyn Future<Output = Cleaned> + Send>>> = None;
    while !books.closed.load(SeqCst) {
        if clock.now() >= cleanup_at {
            cleanup_at = clock.now().after(cleanup_interval);
            cleanup.get_or_insert_with(|| Box::pin(clean_up(Arc::clone(&store))));
        }
        let due = books.registry.look(&clock, cleanup_at);
        let next = due.next;
        for state in &due.lost {
            observe::rare(names::LEASES_LOST, &state.operation);
        }
        for due in due.batches() {
            // On its own, so that a store that hangs does not keep leases from being seen to end.
            spawn_on(&timers, renew(Arc::clone(&store), clock.clone(), timers.clone(), due));
        }
        let asleep = clock.sleep_until(next, &timers);
        let woken = race(asleep, books.registry.keeper_is_needed());
        let Some(under_way) = &mut cleanup else {
            woken.await;
            continue;
        };
        if let First::Left(cleaned) = race(under_way.as_mut(), woken).await {
            cleanup = None;
            let pause = match cleaned {
                Cleaned::All => cleanup_interval,
                Cleaned::Some => Duration::from_millis(1),
            };
            cleanup_at = clock.now().after(pause);
        }
    }
}

/// The end of a cleanup.
enum Cleaned {
    All,
    /// There is more to remove now.
    Some,
}

/// Lets the store clean up. A store that panics must not end the thread that renews leases.
async fn clean_up(store: Arc<dyn Store>) -> Cleaned {
    let cleanup = Cleanup::start();
    let mut under_way = None;
    let done = poll_fn(|context| {
        let poll = || {
            let under_way = under_way.get_or_insert_with(|| store.maintain());
            Pin::new(under_way).poll(context)
        };
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    });
    let observed = done.await.and_then(|done| {
        let observe = || cleanup.done(done, store.usage());
        catch_unwind(AssertUnwindSafe(observe)).map(|()| done)
    });
    match observed {
        Ok(done) if done.more => Cleaned::Some,
        Ok(_) => Cleaned::All,
        Err(_) => {
            tracing::error!(target: "idempotent", "the store panicked while it cleaned up");
            Cleaned::All
        }
    }
}

async fn renew(store: Arc<dyn Store>, clock: Clock, timers: Handle, due: Due) {
    // An answer that comes later would confirm nothing, and what is due is asked for again.
    let patience = clock.sleep_until(due.worthless_from(), &timers);
    let renewed = store.execute_many(due.requests());
    let First::Left(answers) = race(renewed, patience).await else {
        let error = unanswered();
        due.renew.iter().for_each(|_| observe::store_failed(Verb::Renew, &error));
        return;
    };
    for (state, answer) in due.renew.iter().zip(answers) {
        match answer {
            Ok(Updated::Done) => {
                observe::rare(names::RENEWALS, &state.operation);
                state.extended(due.sent_at);
            }
            Ok(_) => state.lose(),
            Err(error) => {
                let operation: &str = &state.operation;
                observe::store_failed(Verb::Renew, &error);
                tracing::warn!(target: "idempotent", operation, %error, "a lease was not renewed");
            }
        }
    }
}
