//! A gate that holds calls until a test lets them go.

use crate::sync::{Mutex, lock};
use std::sync::Arc;
use tokio::sync::Notify;

/// Holds the calls of one verb. Made by [`FaultStore::hold`](super::FaultStore::hold) and
/// [`hold_after`](super::FaultStore::hold_after).
///
/// Dropping the gate opens it, so that a failing test leaves no call hanging.
///
/// ```
/// use idempotent_runtime::store::MemoryStore;
/// use idempotent_runtime::testing::{FaultStore, Verb};
/// use idempotent_runtime::{Error, Idempotency};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = FaultStore::new(MemoryStore::new());
/// let idem = Idempotency::builder().store(store.clone()).build()?;
///
/// let gate = store.hold(Verb::Complete);
/// let call = tokio::spawn(async move {
///     idem.operation("o").key(1).run(async { Ok::<_, Error>(()) }).await
/// });
/// gate.arrived(1).await; // the body has ended, and its answer is on its way
/// gate.open();
/// call.await??;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a gate opens when it is dropped"]
pub struct Gate(Arc<Barrier>);

/// The state that a gate shares with the calls it holds.
#[derive(Debug, Default)]
pub(super) struct Barrier {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    /// The number of arrived calls that may go on.
    admitted: usize,
    open: bool,
}

impl Gate {
    pub(super) fn new(barrier: Arc<Barrier>) -> Self {
        Self(barrier)
    }

    /// Resolves when `calls` calls have arrived since the gate was made.
    pub async fn arrived(&self, calls: usize) {
        self.0.until(|state| state.arrived >= calls).await;
    }

    /// Lets the next `calls` calls go on, in the order of their arrival.
    pub fn admit(&self, calls: usize) {
        self.0.change(|state| state.admitted += calls);
    }

    /// Lets all calls go on, including later ones.
    pub fn open(&self) {
        self.0.change(|state| state.open = true);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

impl Barrier {
    pub(super) async fn pass(&self) {
        let mut place = 0;
        self.change(|state| {
            place = state.arrived;
            state.arrived += 1;
        });
        self.until(|state| state.open || place < state.admitted).await;
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.changed.notify_waiters();
    }

    async fn until(&self, holds: impl Fn(&State) -> bool) {
        loop {
            let changed = self.changed.notified();
            if holds(&lock(&self.state)) {
                return;
            }
            changed.await;
        }
    }
}
