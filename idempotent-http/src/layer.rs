//! The layer and its common settings. Less common ones are in the submodules, by subject.

mod keys;
mod responses;
mod store;

use crate::key::Syntax;
use crate::mistakes::SettingsError;
use crate::payload::Payload;
use crate::scope::Scope;
use crate::service::IdempotencyService;
use crate::settings::{AfterFailure, Found, Presence, Settings, Usage, is_deterministic};
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use idempotent_runtime::{Abandon, Idempotency};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tower_layer::Layer;

/// Makes the requests of a service idempotent by their key.
///
/// The first request with a key runs the handler; its response is stored and replayed to repeats of
/// the request. A layer is cheap to clone and to vary: one for most routes, another with
/// [`require_key`](Self::require_key) for payments.
///
/// A handler that has begun runs to its end even if its client goes away, and
/// [`Idempotency::shutdown`] waits for it. Until the client goes, the handler runs on the task of its
/// connection, with the task-locals of outer middleware in place. Then it moves to a task of its own,
/// without them: a handler must not rely on task-locals after its first `.await`, unless it copes
/// with their absence.
///
/// # Defaults
/// `POST` and `PATCH` are guarded. Keys are optional, and are looked for in `Idempotency-Key`,
/// `Idempotent-Token` and `X-Idempotency-Key`. A repeat with another body or query is refused (422), one
/// while the first is in progress as well (409). Responses of up to 960 KiB are kept for 24 hours, if
/// they announce their length or end without a pause of 100 milliseconds; others flow to their client.
/// 401, 403, 405, 407, 408, 411, 413, 414, 415, 425, 429, 431 and 5xx are not kept, and free the key.
/// Keys of all clients are one set: where clients must not see each other's, set a
/// [`scope`](Self::scope).
///
/// Retention and waiting are the layer's own: `expire` and `wait` of the instance's configuration count
/// only with [`retention_from_config`](Self::retention_from_config) and
/// [`wait_from_config`](Self::wait_from_config). All else that is not set here is as configured.
///
/// A key belongs to one method and one path. In a router that axum nests, a layer sees the path
/// without its prefix; the whole path counts all the same, unless the feature `axum` is off.
///
/// # Mistakes
/// Setters accept any value. [`validate`](Self::validate) finds values with which a layer cannot
/// work, such as a lease of a millisecond. A layer that is used with them emits an error event when
/// it is applied, and refuses requests with a key (500 `misconfigured`).
#[derive(Clone, Debug)]
pub struct IdempotencyLayer {
    settings: Arc<Settings>,
}

impl IdempotencyLayer {
    /// Creates a layer on the store of `instance`, for the service of this name.
    ///
    /// Records, metrics and logs carry the name. Two services that share a store need different
    /// names: a gateway that passes its key on to another service would otherwise get its own
    /// response back, and the other service would never handle the request. All instances of one
    /// service use the same name.
    pub fn new(instance: &Idempotency, service: impl Into<Cow<'static, str>>) -> Self {
        Self { settings: Arc::new(Settings::new(instance.clone(), service.into())) }
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings)
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        let settings = Arc::make_mut(&mut self.settings);
        change(settings);
        settings.found = Found::default();
        self
    }

    /// Checks the settings, best as the last step of building a layer.
    ///
    /// ```
    /// use idempotent_http::IdempotencyLayer;
    /// use idempotent_runtime::Idempotency;
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idem = Idempotency::in_memory()?;
    /// let layer = IdempotencyLayer::new(&idem, "shop").lease(Duration::from_secs(10)).validate()?;
    /// # drop(layer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// All settings with which the layer cannot work.
    pub fn validate(self) -> Result<Self, SettingsError> {
        match self.settings.check() {
            Ok(()) => Ok(self),
            Err(error) => Err(error.clone()),
        }
    }

    /// Turns the layer on (the default) or off. If it is off, every request and its response pass
    /// untouched.
    ///
    /// ```
    /// use idempotent_http::IdempotencyLayer;
    /// use idempotent_runtime::Idempotency;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idem = Idempotency::in_memory()?;
    /// let layer = IdempotencyLayer::new(&idem, "shop").enabled(!cfg!(debug_assertions));
    /// # drop(layer);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn enabled(self, is_enabled: bool) -> Self {
        self.with(|it| it.is_enabled = is_enabled)
    }

    /// Only sets the ambient key and scope for `#[idempotent]` functions further in. The layer
    /// stores nothing, and bodies are passed through, unless a [`KeySource`](crate::KeySource)
    /// needs them.
    #[must_use]
    pub fn ambient_only(self) -> Self {
        self.with(|it| it.usage = Usage::AmbientToken)
    }

    /// Refuses guarded requests without a key (400).
    #[must_use]
    pub fn require_key(self) -> Self {
        self.with(|it| it.presence = Presence::Required)
    }

    /// Lets guarded requests without a key through, unprotected. This is the default.
    #[must_use]
    pub fn optional_key(self) -> Self {
        self.with(|it| it.presence = Presence::Optional)
    }

    /// Sets the headers that may carry the key. If a request has several of them, they must agree.
    #[must_use]
    pub fn headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|it| it.sources.headers = names.into_iter().collect())
    }

    /// Also looks for the key in this parameter of the query. The parameter is not part of the
    /// payload, so that a repeat may carry the key in a header.
    #[must_use]
    pub fn query_parameter(self, name: impl Into<String>) -> Self {
        self.with(|it| it.sources.query = Some(name.into()))
    }

    /// Accepts only quoted keys, as in the draft standard, with well-formed parameters (RFC 9651).
    /// Keys in the query and in bodies are taken as they are.
    #[must_use]
    pub fn strict_keys(self) -> Self {
        self.with(|it| it.sources.syntax = Syntax::Strict)
    }

    /// Sets the methods that are guarded. `GET`, `HEAD`, `OPTIONS` and `TRACE` never are.
    #[must_use]
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.with(|it| it.methods = methods.into_iter().collect())
    }

    /// Sets the scope of keys, such as the tenant or the user of a request. Keys of different scopes
    /// are different keys. `None` refuses a request with a key (403).
    ///
    /// Take it from what an authentication layer outside of this one has put into the request's
    /// extensions, never from a header that the client can choose. A layer without a scope that sees a
    /// keyed request with `Authorization` or `Cookie` warns, once.
    #[must_use]
    pub fn scope(self, scope: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.with(|it| it.scope = Some(Scope::AtOnce(Arc::new(scope))))
    }

    /// Sets the part of a request that must not change under one key. A repeat that differs in it is
    /// refused (422).
    #[must_use]
    pub fn payload(self, payload: Payload) -> Self {
        self.with(|it| it.payload = payload)
    }

    /// Keeps a key bound to its payload after a response that is not stored, as the draft standard
    /// binds it: a repeat with another payload is refused (422) for as long as responses are kept.
    ///
    /// By default such a key is free for another payload. With this, it is free for the same one. It
    /// changes nothing under [`Payload::Ignored`].
    #[must_use]
    pub fn bind_payload_after_failure(self) -> Self {
        self.with(|it| it.after_failure = AfterFailure::SamePayload)
    }

    /// Sets the largest body of a keyed request; a larger one is refused (413).
    #[must_use]
    pub fn max_request_bytes(self, bytes: usize) -> Self {
        self.with(|it| it.max_request_bytes = bytes)
    }

    /// Sets the largest response that is stored. A larger one is streamed to its client, and a
    /// repeat is told that the result was not retained (409). It cannot be more than the instance's
    /// `max_value_bytes`.
    #[must_use]
    pub fn max_response_bytes(self, bytes: usize) -> Self {
        self.with(|it| it.max_response_bytes = bytes)
    }

    /// Also stores responses with a status of 5xx.
    #[must_use]
    pub fn store_server_errors(self) -> Self {
        self.store_statuses(|status| status.is_server_error() || is_deterministic(status))
    }

    /// Chooses the statuses with which responses are stored. All others free the key: the handler
    /// runs again when the request is sent again.
    #[must_use]
    pub fn store_statuses(
        self,
        is_stored: impl Fn(StatusCode) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.with(|it| it.is_stored = Arc::new(is_stored))
    }

    /// Lets a repeat wait this long for the first request before it is refused as in progress. By
    /// default it does not wait, whatever the configuration says.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|it| it.wait = Some(wait))
    }

    /// Caps the `Retry-After` of a repeat whose first request is in progress (409); one second by
    /// default, and less if the lease ends sooner.
    #[must_use]
    pub fn retry_after(self, at_most: Duration) -> Self {
        self.with(|it| it.retry_after = Some(at_most))
    }

    /// Sets the retention of responses; 24 hours by default, whatever the configuration says.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        self.with(|it| it.retention = Some(retention))
    }

    /// Sets the lease: the time after which a key is free again if its server stops renewing it.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|it| it.lease = Some(lease))
    }

    /// Sets the policy for a key whose handler was cut off: the next request runs it again, or the
    /// key is blocked until an operator resolves it.
    #[must_use]
    pub fn abandon(self, abandon: Abandon) -> Self {
        self.with(|it| it.abandon = Some(abandon))
    }

    /// Sets the largest number of handlers whose client has gone, over all clones and variations of
    /// this layer in this process; 1,024 by default.
    ///
    /// A handler runs to its end when its client goes away, and limits around the layer, such as
    /// tower's `ConcurrencyLimit`, no longer count it. Beyond this number, a request whose handler
    /// would start is refused (503, with `Retry-After`). Repeats are still answered, and no handler
    /// is stopped.
    #[must_use]
    pub fn max_orphaned_handlers(self, handlers: usize) -> Self {
        self.with(|it| it.max_orphans = handlers)
    }

    /// Replaces the name given to [`new`](Self::new), for a variation of a layer that has keys of its
    /// own.
    #[must_use]
    pub fn name(self, name: impl Into<Cow<'static, str>>) -> Self {
        self.with(|it| it.operation = name.into())
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        self.settings.report();
        IdempotencyService::new(inner, Arc::clone(&self.settings))
    }
}
