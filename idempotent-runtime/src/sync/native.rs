//! Primitives of std and tokio.

use std::future::Future;
use std::thread;
use tokio::runtime::{Handle, Runtime};

pub(crate) use rand::rng;
pub(crate) use std::hash::RandomState;
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, atomic};
pub(crate) use tokio::sync::Notify;
pub(crate) use tokio::sync::futures::{Notified, OwnedNotified};

/// Runs `job` to its end on a thread of its own, and with it the timers and tasks of `runtime`.
pub(crate) fn run_on_thread(
    name: &str,
    runtime: Runtime,
    job: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(move || runtime.block_on(job)).map(drop)
}

/// Runs `job` as a task of `runtime`.
pub(crate) fn spawn_on(runtime: &Handle, job: impl Future<Output = ()> + Send + 'static) {
    runtime.spawn(job);
}

/// Number of this thread, which few threads share.
pub(crate) fn thread_number() -> usize {
    thread_local! {
        static NUMBER: usize = {
            static NEXT: atomic::AtomicUsize = atomic::AtomicUsize::new(0);
            NEXT.fetch_add(1, atomic::Ordering::Relaxed)
        };
    }
    NUMBER.with(|number| *number)
}
