//! Settings of the instance's configuration, for one layer.

use super::IdempotencyLayer;
use idempotent_runtime::{OnStoreError, OnUnrecorded};
use std::borrow::Cow;
use std::time::Duration;

impl IdempotencyLayer {
    /// Refuses keyed requests while the store does not answer (503), or handles them without
    /// protection. Taken from the configuration by default.
    #[must_use]
    pub fn on_store_error(self, on_store_error: OnStoreError) -> Self {
        self.with(|it| it.on_store_error = Some(on_store_error))
    }

    /// Sets the answer to a client whose response the store has not confirmed in time: the
    /// response, or 503 `not-recorded`. Taken from the configuration by default.
    #[must_use]
    pub fn on_unrecorded(self, on_unrecorded: OnUnrecorded) -> Self {
        self.with(|it| it.on_unrecorded = Some(on_unrecorded))
    }

    /// Renews the lease of a request for this long at most, so that a handler that hangs does not
    /// hold its key forever. Taken from the configuration by default.
    #[must_use]
    pub fn max_run(self, max_run: Duration) -> Self {
        self.with(|it| it.max_run = Some(max_run))
    }

    /// Sets the text for a client whose first request is in progress. Taken from the configuration
    /// by default.
    #[must_use]
    pub fn message(self, message: impl Into<Cow<'static, str>>) -> Self {
        self.with(|it| it.message = Some(message.into()))
    }

    /// Takes the waiting time of repeats from `wait` of the instance's configuration, and follows
    /// its changes.
    #[must_use]
    pub fn wait_from_config(self) -> Self {
        self.with(|it| it.wait = None)
    }
}
