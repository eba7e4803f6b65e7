//! What a layer does, and where.

use crate::key::Sources;
use crate::payload::Payload;
use http::request::Parts;
use http::{Method, StatusCode};
use idempotent_runtime::{Abandon, Idempotency};
use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// On whose behalf a request is made; `None` if that is not known.
pub(crate) type ScopeOf = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) instance: Idempotency,
    pub(crate) operation: Cow<'static, str>,
    pub(crate) usage: Usage,
    pub(crate) presence: Presence,
    pub(crate) sources: Sources,
    pub(crate) methods: Vec<Method>,
    pub(crate) scope: Option<ScopeOf>,
    pub(crate) payload: Payload,
    pub(crate) after_failure: AfterFailure,
    pub(crate) max_request_bytes: usize,
    pub(crate) max_response_bytes: usize,
    pub(crate) is_stored: Arc<dyn Fn(StatusCode) -> bool + Send + Sync>,
    pub(crate) wait: Duration,
    pub(crate) retention: Duration,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) abandon: Option<Abandon>,
}

/// What the layer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Responses are stored and replayed.
    Exchange,
    /// The key is put in place for functions further in.
    AmbientToken,
}

/// Whether a request may come without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Optional,
    Required,
}

/// The payload that may follow a response that is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    AnyPayload,
    SamePayload,
}

const DAY: Duration = Duration::from_secs(24 * 3_600);
const MEBIBYTE: usize = 1 << 20;

impl Settings {
    pub(crate) fn new(instance: Idempotency, operation: Cow<'static, str>) -> Self {
        Self {
            instance,
            operation,
            usage: Usage::Exchange,
            presence: Presence::Optional,
            sources: Sources::standard(),
            methods: vec![Method::POST, Method::PATCH],
            scope: None,
            payload: Payload::Bytes,
            after_failure: AfterFailure::AnyPayload,
            max_request_bytes: MEBIBYTE,
            max_response_bytes: MEBIBYTE - MEBIBYTE / 16,
            is_stored: Arc::new(is_deterministic),
            wait: Duration::ZERO,
            retry_after: None,
            retention: DAY,
            lease: None,
            abandon: None,
        }
    }

    /// Safe methods pass whatever the settings say.
    pub(crate) fn guards(&self, method: &Method) -> bool {
        !method.is_safe() && self.methods.contains(method)
    }

    /// Whether a response is stored. The handler has run: if the choice panics, that must not free
    /// the key of what happened, and it counts as if it were not there.
    pub(crate) fn stores(&self, status: StatusCode) -> bool {
        catch_unwind(AssertUnwindSafe(|| (self.is_stored)(status))).unwrap_or_else(|_| {
            let hook = "store_statuses";
            tracing::error!(target: "idempotent", hook, "a hook panicked and was ignored");
            is_deterministic(status)
        })
    }
}

/// Statuses that a repeat of the request would get as well.
pub(crate) fn is_deterministic(status: StatusCode) -> bool {
    const TRANSIENT: [StatusCode; 3] =
        [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    !status.is_server_error() && !TRANSIENT.contains(&status)
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("operation", &self.operation)
            .field("usage", &self.usage)
            .field("presence", &self.presence)
            .field("sources", &self.sources)
            .field("methods", &self.methods)
            .field("scoped", &self.scope.is_some())
            .field("payload", &self.payload)
            .field("after_failure", &self.after_failure)
            .field("wait", &self.wait)
            .field("retry_after", &self.retry_after)
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}
