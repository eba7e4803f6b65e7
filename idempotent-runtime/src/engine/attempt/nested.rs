//! Calls inside a body: they share its permit, and it hears of their refusals.

use super::admission::Permit;
use super::current;
use super::state::AttemptState;
use std::future::Future;
use std::sync::{Arc, Weak};

tokio::task_local! {
    /// The instance and the permit of a body that stands for many attempts, and so has no current one.
    static BATCH: (usize, Weak<Permit>);
}

/// The permit of the body around this call, if it belongs to the same instance.
pub(crate) fn enclosing_permit(instance: usize) -> Option<Arc<Permit>> {
    let of_body = || {
        let around = current::enclosing()?;
        let mut own = around.state().chain().filter(|state| state.instance == instance);
        own.find_map(AttemptState::permit)
    };
    let of_batch = || {
        let (of, permit) = BATCH.try_with(Clone::clone).ok()?;
        (of == instance).then(|| permit.upgrade())?
    };
    of_body().or_else(of_batch)
}

/// Tells the body around this call that the call was refused in a way that a retry can change.
pub(crate) fn call_refused() {
    if let Some(around) = current::enclosing() {
        around.state().call_was_refused();
    }
}

/// Runs a body that has no current attempt with `permit` around the calls in it.
pub(crate) async fn with_permit<F: Future>(
    instance: usize,
    permit: Option<Weak<Permit>>,
    body: F,
) -> F::Output {
    match permit {
        Some(permit) => BATCH.scope((instance, permit), body).await,
        None => body.await,
    }
}
