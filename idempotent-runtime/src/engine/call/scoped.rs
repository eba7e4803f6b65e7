//! The instance that a test has set for a task, in place of the installed one.

use crate::engine::flight::Engine;
use std::future::Future;
use std::sync::Arc;

tokio::task_local! {
    static SCOPED: Arc<Engine>;
}

/// Runs `future` with `engine` in place of the installed instance's.
pub(crate) async fn scope<F: Future>(engine: Arc<Engine>, future: F) -> F::Output {
    SCOPED.scope(engine, future).await
}

/// The engine that this task is to use in place of the installed instance's.
pub(crate) fn current() -> Option<Arc<Engine>> {
    SCOPED.try_with(Arc::clone).ok()
}
