//! Settings of a layer.

use crate::headers::HeaderChoices;
use crate::key::Sources;
use crate::mistakes::{self, SettingsError};
use crate::orphans::{MAX_ORPHANS, Orphans};
use crate::payload::Payload;
use crate::quota::Quota;
use crate::refusal::Refusals;
use crate::scope::Scope;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use idempotent_runtime::{Abandon, Idempotency, OnStoreError, OnUnrecorded};
use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Hook that returns the scope of a request; `None` if it is not known.
pub(crate) type ScopeOf = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// Hook that validates a key.
pub(crate) type ValidateKey = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// Hook that chooses the retention of a response.
pub(crate) type RetentionBy = Arc<dyn Fn(StatusCode, &HeaderMap) -> Option<Duration> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) instance: Idempotency,
    pub(crate) is_enabled: bool,
    pub(crate) operation: Cow<'static, str>,
    pub(crate) usage: Usage,
    pub(crate) presence: Presence,
    pub(crate) sources: Sources,
    pub(crate) validate_key: Option<ValidateKey>,
    pub(crate) host: Host,
    pub(crate) methods: Vec<Method>,
    pub(crate) scope: Option<Scope>,
    pub(crate) payload: Payload,
    pub(crate) after_failure: AfterFailure,
    pub(crate) max_request_bytes: usize,
    pub(crate) max_response_bytes: usize,
    pub(crate) stream_after: Duration,
    pub(crate) is_stored: Arc<dyn Fn(StatusCode) -> bool + Send + Sync>,
    pub(crate) header_choices: Option<Arc<HeaderChoices>>,
    /// `None` leaves it to the instance's configuration, here and in the settings below.
    pub(crate) wait: Option<Duration>,
    pub(crate) retention: Option<Duration>,
    pub(crate) retention_by: Option<RetentionBy>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) max_run: Option<Duration>,
    pub(crate) message: Option<Cow<'static, str>>,
    pub(crate) abandon: Option<Abandon>,
    /// Shared by all variations of a layer.
    pub(crate) orphans: Arc<Orphans>,
    pub(crate) max_orphans: usize,
    pub(crate) on_store_error: Option<OnStoreError>,
    pub(crate) on_unrecorded: Option<OnUnrecorded>,
    pub(crate) refusals: Refusals,
    /// Shared by all clones of a layer.
    pub(crate) quota: Option<Arc<Quota>>,
    pub(crate) found: Found,
}

/// Result of validating the settings, and flags for reports that are made once.
#[derive(Clone, Default)]
pub(crate) struct Found {
    checked: OnceLock<Result<(), SettingsError>>,
    /// Set once the mistakes were reported.
    reported: OnceLock<()>,
    /// Set once the warning about shared keys was logged.
    warned: OnceLock<()>,
}

/// Mode of operation of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Responses are stored and replayed.
    Exchange,
    /// The key becomes the ambient key of functions further in.
    AmbientToken,
}

/// Requirement of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Optional,
    Required,
}

/// Role of the host in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Ignored,
    PartOfTheKey,
}

/// Payloads that a key takes after a response that is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    AnyPayload,
    SamePayload,
}

/// The default retention: a day.
pub(crate) const RETENTION: Duration = Duration::from_secs(24 * 3_600);
const MEBIBYTE: usize = 1 << 20;

impl Settings {
    pub(crate) fn new(instance: Idempotency, operation: Cow<'static, str>) -> Self {
        Self {
            instance,
            is_enabled: true,
            operation,
            usage: Usage::Exchange,
            presence: Presence::Optional,
            sources: Sources::standard(),
            validate_key: None,
            host: Host::Ignored,
            methods: vec![Method::POST, Method::PATCH],
            scope: None,
            payload: Payload::Bytes,
            after_failure: AfterFailure::AnyPayload,
            max_request_bytes: MEBIBYTE,
            max_response_bytes: MEBIBYTE - MEBIBYTE / 16,
            stream_after: Duration::from_millis(100),
            is_stored: Arc::new(is_deterministic),
            header_choices: None,
            wait: Some(Duration::ZERO),
            retention: Some(RETENTION),
            retention_by: None,
            retry_after: None,
            lease: None,
            max_run: None,
            message: None,
            abandon: None,
            orphans: Arc::default(),
            max_orphans: MAX_ORPHANS,
            on_store_error: None,
            on_unrecorded: None,
            found: Found::default(),
            refusals: Refusals::default(),
            quota: None,
        }
    }

    /// Returns `true` if the method is guarded. Safe methods never are.
    pub(crate) fn guards(&self, method: &Method) -> bool {
        self.is_enabled && self.covers(method)
    }

    /// Returns `true` if the method is guarded while the layer is on.
    pub(crate) fn covers(&self, method: &Method) -> bool {
        !method.is_safe() && self.methods.contains(method)
    }

    /// Returns `true` if another handler may start, given the limit on handlers whose client has
    /// gone.
    pub(crate) fn may_start_handlers(&self) -> bool {
        self.orphans.count() < self.max_orphans
    }

    /// Returns `true` if a response with this status is stored. A hook that panics is ignored.
    pub(crate) fn stores(&self, status: StatusCode) -> bool {
        call_hook("store_statuses", || (self.is_stored)(status))
            .unwrap_or_else(|| is_deterministic(status))
    }

    /// Validates the settings, once.
    pub(crate) fn check(&self) -> Result<(), &SettingsError> {
        self.found.checked.get_or_init(|| mistakes::check(self)).as_ref().copied()
    }

    /// Reports mistakes in the settings, once.
    pub(crate) fn report(&self) {
        if let Err(error) = self.check()
            && self.found.reported.set(()).is_ok()
        {
            let layer: &str = &self.operation;
            tracing::error!(target: "idempotent", layer, %error, "the layer is misconfigured");
        }
    }

    /// Warns, once, that clients who are told apart by their credentials share one set of keys.
    pub(crate) fn warn_of_shared_keys(&self) {
        if self.found.warned.set(()).is_ok() {
            let layer: &str = &self.operation;
            let help = "help: .scope(|request| ..), or .scope(|_| Some(\"shared\".into()))";
            tracing::warn!(
                target: "idempotent", layer, help,
                "requests carry credentials, and all clients share one set of keys"
            );
        }
    }
}

/// Calls a hook after the handler ran. A panic in it must not free the key, so it counts as if
/// there were no hook.
pub(crate) fn call_hook<R>(hook: &'static str, call: impl FnOnce() -> R) -> Option<R> {
    let answer = catch_unwind(AssertUnwindSafe(call)).ok();
    if answer.is_none() {
        tracing::error!(target: "idempotent", hook, "a hook panicked and was ignored");
    }
    answer
}

/// Returns `true` for statuses that a repeat of the request would get too, with any credentials and
/// by any route.
pub(crate) fn is_deterministic(status: StatusCode) -> bool {
    !status.is_server_error() && !TRANSIENT.contains(&status)
}

/// Answers that another try may change, and with which nothing was handled, as a rule: the client signs
/// in again, is given a permission, waits, or sends the same content by other means.
const TRANSIENT: [StatusCode; 12] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::PROXY_AUTHENTICATION_REQUIRED,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::LENGTH_REQUIRED,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::URI_TOO_LONG,
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    StatusCode::TOO_EARLY,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
];

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("operation", &self.operation)
            .field("enabled", &self.is_enabled)
            .field("usage", &self.usage)
            .field("presence", &self.presence)
            .field("sources", &self.sources)
            .field("host", &self.host)
            .field("methods", &self.methods)
            .field("scoped", &self.scope.is_some())
            .field("payload", &self.payload)
            .field("after_failure", &self.after_failure)
            .field("wait", &self.wait)
            .field("retry_after", &self.retry_after)
            .field("retention", &self.retention)
            .field("refusals", &self.refusals)
            .field("quota", &self.quota)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_statuses_that_free_a_key_are_those_in_the_code() {
        let codes: Vec<_> = TRANSIENT.iter().map(|status| status.as_str()).collect();
        let codes = codes.join(", ");
        for (file, places) in [("../docs/http.md", 2), ("src/layer.rs", 1), ("src/form.rs", 1)] {
            let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
            // The lists span several lines.
            let text = std::fs::read_to_string(&path).unwrap().replace("\n/// ", " ");
            let lists =
                [", 5xx", " and 5xx"].map(|end| text.matches(&format!("{codes}{end}")).count());
            assert_eq!(lists.iter().sum::<usize>(), places, "{file}");
        }
    }
}
