//! The thread that keeps leases alive and finishes what callers left behind.
//!
//! It has a small runtime of its own. A body that blocks its thread, a test's runtime that has
//! ended, or one that is shutting down does not stop it.

use super::calls::Calls;
use super::lease::{Due, Leases};
use crate::clock::Clock;
use crate::observe;
use crate::protocol::{StoreExt as _, Updated};
use crate::race::{First, race};
use crate::store::Store;
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
    shared: Arc<Shared>,
    timers: Handle,
}

#[derive(Debug)]
struct Shared {
    leases: Leases,
    calls: Calls,
    jobs: AtomicUsize,
    /// Wakes whoever waits for leases or jobs to end.
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
        let shared = Arc::new(Shared {
            leases: Leases::new(),
            calls: Calls::new(),
            jobs: AtomicUsize::new(0),
            ended: Notify::new(),
            stopping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        let keep = keep(Arc::clone(&shared), store, clock, cleanup_interval, timers.clone());
        run_on_thread("idempotent-keeper", runtime, keep)?;
        Ok(Self { shared, timers })
    }

    pub(crate) fn leases(&self) -> &Leases {
        &self.shared.leases
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
        Job::start(&self.shared)
    }

    /// A call is under way, from here until [`call_ended`](Self::call_ended).
    pub(crate) fn call_begins(&self) {
        self.shared.calls.begin();
    }

    pub(crate) fn call_ended(&self) {
        self.shared.calls.end();
        self.attempt_ended();
    }

    /// Tells whoever drains that an attempt ended.
    pub(crate) fn attempt_ended(&self) {
        if self.shared.stopping.load(SeqCst) {
            self.shared.ended.notify_waiters();
        }
    }

    /// Whether no attempt is to begin any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.shared.stopping.load(SeqCst)
    }

    pub(crate) fn stop_accepting(&self) {
        self.shared.stopping.store(true, SeqCst);
    }

    /// Resolves when no call is under way, no attempt runs and no job is left.
    pub(crate) async fn drained(&self) {
        loop {
            let ended = self.shared.ended.notified();
            let Shared { leases, calls, jobs, .. } = &*self.shared;
            if leases.count() == 0 && calls.count() == 0 && jobs.load(SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The thread ends by itself; waiting for it here could block a runtime.
        self.shared.closed.store(true, SeqCst);
        self.shared.leases.wake_keeper();
    }
}

/// A job that has not ended.
#[derive(Debug)]
pub(crate) struct Job(Arc<Shared>);

impl Job {
    fn start(shared: &Arc<Shared>) -> Self {
        shared.jobs.fetch_add(1, SeqCst);
        Self(Arc::clone(shared))
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
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    clock: Clock,
    cleanup_interval: Duration,
    timers: Handle,
) {
    let mut cleanup_at = clock.now().after(cleanup_interval);
    let mut cleanup: Option<Pin<Box<dyn Future<Output = Cleaned> + Send>>> = None;
    while !shared.closed.load(SeqCst) {
        if clock.now() >= cleanup_at {
            cleanup_at = clock.now().after(cleanup_interval);
            cleanup.get_or_insert_with(|| Box::pin(clean_up(Arc::clone(&store))));
        }
        let due = shared.leases.look(&clock, cleanup_at);
        let next = due.next;
        for due in due.batches() {
            // On its own, so that a store that hangs does not keep leases from being seen to end.
            spawn_on(&timers, renew(Arc::clone(&store), clock.clone(), timers.clone(), due));
        }
        let asleep = clock.sleep_until(next, &timers);
        let woken = race(asleep, shared.leases.keeper_is_needed());
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
    match done.await {
        Ok(done) => {
            observe::maintained(done, store.usage());
            if done.more { Cleaned::Some } else { Cleaned::All }
        }
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
    let First::Left(answers) = race(renewed, patience).await else { return };
    for (lease, answer) in due.renew.iter().zip(answers) {
        match answer {
            Ok(Updated::Done) => lease.extended(due.sent_at),
            Ok(_) => lease.lose(),
            Err(error) => {
                let operation: &str = &lease.operation;
                tracing::warn!(target: "idempotent", operation, %error, "a lease was not renewed");
            }
        }
    }
}
