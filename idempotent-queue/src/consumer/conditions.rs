//! Conditions under which a consumer works: its phase, and outages of those that it depends on.

use crate::settlement::Pauses;
use tokio::time::Instant;

/// The conditions that the tasks of a consumer share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) phase: Phase,
    pub(crate) store: Outage,
    pub(crate) source: Outage,
    pub(crate) settling: Outage,
}

/// A service that a consumer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependency {
    Store,
    /// The broker, as it delivers.
    Source,
    /// The broker, as it takes settlements.
    Settling,
}

/// The phases of a consumer, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    #[default]
    Starting,
    Running,
    /// Handlers that run are finished, and other messages go back.
    Draining,
    Ended,
}

/// An outage, in which nothing is fetched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outage {
    failures: u32,
    until: Option<Instant>,
}

impl Conditions {
    /// An outage of this dependency is on.
    pub(crate) fn is_out(mut self, of: Dependency) -> bool {
        self.outage(of).is_on()
    }

    pub(crate) fn outage(&mut self, of: Dependency) -> &mut Outage {
        match of {
            Dependency::Store => &mut self.store,
            Dependency::Source => &mut self.source,
            Dependency::Settling => &mut self.settling,
        }
    }

    /// The time before which nothing is fetched, if that is still to come.
    pub(crate) fn no_fetch_before(&self) -> Option<Instant> {
        self.no_start_before().max(self.source.until())
    }

    /// Handlers may start.
    pub(crate) fn lets_start(&self) -> bool {
        self.phase < Phase::Draining && self.no_start_before().is_none()
    }

    /// The time before which no handler starts, if that is still to come: it could not be recorded, or not
    /// be settled.
    pub(crate) fn no_start_before(&self) -> Option<Instant> {
        self.store.until().max(self.settling.until())
    }
}

impl Outage {
    /// There has been no answer since a failure.
    pub(crate) fn is_on(&self) -> bool {
        self.failures > 0
    }

    /// The end of the pause, if that is still to come.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until.filter(|until| *until > Instant::now())
    }

    pub(crate) fn fails(&mut self, pauses: Pauses) {
        // Messages that failed together are one failure.
        if self.until().is_none() {
            self.failures = self.failures.saturating_add(1);
            self.until = Some(Instant::now() + pauses.after(self.failures));
        }
    }

    /// Ends the outage. `false` if there was none.
    pub(crate) fn ends(&mut self) -> bool {
        let was_on = self.is_on();
        *self = Self::default();
        was_on
    }
}
