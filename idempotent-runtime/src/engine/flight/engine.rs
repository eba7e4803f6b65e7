//! The engine of an instance: its attempts, and the flights in which its callers meet.

use super::flights::Flights;
use crate::engine::attempt::Instance;
use std::ops::Deref;
use std::sync::Arc;

/// The part of an instance that all of its calls share.
///
/// The attempts are apart, because work in the background outlives every call and needs no flights.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) instance: Arc<Instance>,
    pub(crate) flights: Flights,
}

impl Engine {
    pub(crate) fn new(instance: Instance) -> Self {
        Self { instance: Arc::new(instance), flights: Flights::new() }
    }
}

impl Deref for Engine {
    type Target = Arc<Instance>;

    fn deref(&self) -> &Arc<Instance> {
        &self.instance
    }
}
