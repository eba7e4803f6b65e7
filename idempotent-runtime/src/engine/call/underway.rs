//! Work that a shutdown waits for.

use crate::engine::attempt::Instance;
use std::sync::Arc;

/// Something that a shutdown waits for, until it is dropped.
#[derive(Debug)]
pub(crate) struct Underway(Arc<Instance>);

impl Underway {
    pub(crate) fn new(instance: &Arc<Instance>) -> Self {
        instance.keeper.call_begins();
        Self(Arc::clone(instance))
    }

    /// `true` if a shutdown had begun before it.
    pub(crate) fn is_too_late(&self) -> bool {
        self.0.keeper.is_stopping()
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.keeper.call_ended();
    }
}
