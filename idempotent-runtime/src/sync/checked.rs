//! Primitives under the concurrency checker.
//!
//! Every effect of one task that another may see is a scheduling point. Random numbers come from
//! the checker, so that a schedule can be replayed.

#[cfg(test)]
pub(crate) mod check;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use shuttle::rand::RngCore as _;
use std::future::Future;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::futures;

pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
pub(crate) use tokio::sync::futures::Notified;

pub(crate) type RandomState = BuildHasherDefault<DefaultHasher>;

pub(crate) fn rng() -> StdRng {
    StdRng::seed_from_u64(shuttle::rand::thread_rng().next_u64())
}

/// Runs `job` as a task of the checker that need not end. There is no thread.
pub(crate) fn run_on_thread(
    _name: &str,
    _runtime: Runtime,
    job: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    drop(shuttle::future::spawn(job));
    Ok(())
}

/// Runs `job` as a task of the checker that need not end.
pub(crate) fn spawn_on(_runtime: &Handle, job: impl Future<Output = ()> + Send + 'static) {
    drop(shuttle::future::spawn(job));
}

/// The number of the checker's task: they all share one thread.
pub(crate) fn thread_number() -> usize {
    shuttle::current::me().into()
}

/// Tokio's `Notify`, which the checker does not know, with a scheduling point before each use.
#[derive(Debug, Default)]
pub(crate) struct Notify(Arc<tokio::sync::Notify>);

impl Notify {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        switch();
        self.0.notified()
    }

    pub(crate) fn notified_owned(self: Arc<Self>) -> OwnedNotified {
        switch();
        let notified = Box::pin(Arc::clone(&self.0).notified_owned());
        OwnedNotified { notified, _notify: self }
    }

    pub(crate) fn notify_one(&self) {
        switch();
        self.0.notify_one();
    }

    pub(crate) fn notify_waiters(&self) {
        switch();
        self.0.notify_waiters();
    }
}

#[derive(Debug)]
pub(crate) struct OwnedNotified {
    notified: Pin<Box<futures::OwnedNotified>>,
    _notify: Arc<Notify>,
}

impl OwnedNotified {
    pub(crate) fn enable(mut self: Pin<&mut Self>) -> bool {
        self.notified.as_mut().enable()
    }
}

impl Future for OwnedNotified {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.notified.as_mut().poll(context)
    }
}

/// The standard library's `OnceLock`, which the checker does not know, with a scheduling point before each use.
#[derive(Debug)]
pub(crate) struct OnceLock<T>(std::sync::OnceLock<T>);

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        switch();
        self.0.get()
    }

    /// `make` must not wait for another task.
    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        switch();
        self.0.get_or_init(make)
    }
}

/// Scheduling point. The checker has no time, so sleeping only lets other tasks run.
fn switch() {
    shuttle::thread::sleep(Duration::ZERO);
}
