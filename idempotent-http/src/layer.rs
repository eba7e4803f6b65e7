//! The layer, and its settings.

use crate::key::Syntax;
use crate::payload::Payload;
use crate::service::IdempotencyService;
use crate::settings::{AfterFailure, Presence, Settings, Usage, is_deterministic};
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use idempotent_runtime::{Abandon, Idempotency};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tower_layer::Layer;

/// Makes the requests of a service idempotent by their key.
///
/// The first request with a key runs the handler; its response is stored and replayed to everybody
/// who sends the same request again. A layer is cheap to clone and to vary: one for most routes,
/// another with [`require_key`](Self::require_key) for payments.
///
/// A handler that has begun runs to its end even if its client goes away, and
/// [`Idempotency::shutdown`] waits for it.
///
/// # Defaults
/// `POST` and `PATCH` are guarded. Keys are optional, and are looked for in `Idempotency-Key`,
/// `Idempotent-Token` and `X-Idempotency-Key`. A repeat with another body or query is refused (422), one
/// while the first is in progress as well (409). Responses of up to 960 KiB are kept for 24 hours;
/// 408, 425, 429 and 5xx are not kept, and free the key. Keys of all clients are one set: where
/// clients must not see each other's, set a [`scope`](Self::scope).
///
/// A key belongs to one method and one path. In a router that axum nests, a layer sees the path
/// without its prefix; the whole path counts all the same, unless the feature `axum` is off.
#[derive(Clone, Debug)]
pub struct IdempotencyLayer {
    settings: Arc<Settings>,
}

impl IdempotencyLayer {
    /// A layer on the store of `instance`, for the service of this name.
    ///
    /// Records, metrics and logs carry the name. Two services that share a store need different
    /// names: a gateway that passes its key on to another service would otherwise get its own
    /// response back, and the other service would never handle the request. All instances of one
    /// service use the same name.
    pub fn new(instance: &Idempotency, service: impl Into<Cow<'static, str>>) -> Self {
        Self { settings: Arc::new(Settings::new(instance.clone(), service.into())) }
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// Only puts the key and the scope in place, as the ambient ones of `#[idempotent]` functions
    /// further in. Nothing is stored by the layer, and bodies flow through.
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

    /// The headers in which keys are looked for. If a request has several of them, they must agree.
    #[must_use]
    pub fn headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|it| it.sources.headers = names.into_iter().collect())
    }

    /// Also looks for the key in this parameter of the query.
    #[must_use]
    pub fn query_parameter(self, name: impl Into<String>) -> Self {
        self.with(|it| it.sources.query = Some(name.into()))
    }

    /// Takes only quoted keys, as the draft standard writes them.
    #[must_use]
    pub fn strict_keys(self) -> Self {
        self.with(|it| it.sources.syntax = Syntax::Strict)
    }

    /// The methods that are guarded. `GET`, `HEAD`, `OPTIONS` and `TRACE` never are.
    #[must_use]
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.with(|it| it.methods = methods.into_iter().collect())
    }

    /// On whose behalf a request is made: a tenant, a user. Keys of different scopes are different
    /// keys. `None` refuses a request with a key (403).
    ///
    /// Take it from what an authentication layer outside of this one has put into the request's
    /// extensions, never from a header that the client can choose.
    #[must_use]
    pub fn scope(self, scope: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.with(|it| it.scope = Some(Arc::new(scope)))
    }

    /// What two requests with one key must have in common.
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

    /// The largest body of a keyed request; a larger one is refused (413).
    #[must_use]
    pub fn max_request_bytes(self, bytes: usize) -> Self {
        self.with(|it| it.max_request_bytes = bytes)
    }

    /// The largest response that is stored. A larger one flows to its client, and a repeat is told
    /// that the result was not retained (409). It cannot be more than the instance's
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

    /// The statuses with which responses are stored. All others free the key: the handler runs again
    /// when the request is sent again.
    #[must_use]
    pub fn store_statuses(
        self,
        is_stored: impl Fn(StatusCode) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.with(|it| it.is_stored = Arc::new(is_stored))
    }

    /// How long a repeat waits for the first request before it is told that that is in progress.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|it| it.wait = wait)
    }

    /// When a client whose first request is in progress is told to come back, at the latest; a
    /// second if not set. It is told earlier if the lease ends earlier.
    #[must_use]
    pub fn retry_after(self, at_most: Duration) -> Self {
        self.with(|it| it.retry_after = Some(at_most))
    }

    /// How long responses are kept.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        self.with(|it| it.retention = retention)
    }

    /// How long others stay away from a key without a sign of life of its server.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|it| it.lease = Some(lease))
    }

    /// What a request that never ended means for the next one with its key.
    #[must_use]
    pub fn abandon(self, abandon: Abandon) -> Self {
        self.with(|it| it.abandon = Some(abandon))
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
        IdempotencyService::new(inner, Arc::clone(&self.settings))
    }
}
