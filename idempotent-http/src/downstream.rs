//! Keys for requests to other services: derived from the key of the request that is being handled.
//!
//! A handler that is run again, because its first attempt failed or its server died, sends its
//! requests to other services again. With [`DerivedKeyLayer`] around the client, they carry the same
//! `Idempotency-Key` as the first time, and a service that honours keys does not act twice. The key is
//! [derived](idempotent_runtime::Current::derived_key) from the attempt, so the client's own key is
//! not passed on.
//!
//! ```
//! use axum::Router;
//! use axum::body::Body;
//! use axum::routing::post;
//! use http::{HeaderMap, Request};
//! use idempotent_http::downstream::DerivedKeyLayer;
//! use idempotent_runtime::{Error, Idempotency, Mode};
//! use tower_layer::Layer as _;
//! use tower_service::Service as _;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Stands for a client: any service of `http::Request`, such as that of hyper-util.
//! let provider: Router = Router::new().route(
//!     "/v1/charges",
//!     post(async |headers: HeaderMap| assert!(headers.contains_key("idempotency-key"))),
//! );
//! let mut payments = DerivedKeyLayer::new("payments").layer(provider);
//!
//! let idem = Idempotency::in_memory()?;
//! let order = idem.operation("orders.create").key("42").mode(Mode::Strong);
//! let status = order.run(async {
//!     let charge = Request::post("/v1/charges").body(Body::from("amount=20")).unwrap();
//!     let charged = payments.call(charge).await.unwrap();
//!     Ok::<_, Error>(charged.status().as_u16())
//! });
//! assert_eq!(status.await?, 200);
//! # Ok(()) }
//! ```
//!
//! The feature `client` adds support for `reqwest`: a [`DerivedKeyLayer`] also wraps its client,
//! and `client::RequestBuilderExt` names the key of a single request.

use crate::header::IDEMPOTENCY_KEY;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request};
use idempotent_runtime::current;
use std::borrow::Cow;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Layer that adds a derived key to the requests that a client sends during an attempt.
///
/// The key is derived from the attempt, the name of this layer, and the method and path of the
/// request. **Two requests of one attempt to the same path have the same key**, so the service takes
/// the second for a repeat of the first: give each of them a [`KeyName`].
///
/// Requests that already have the key's header, requests with a safe method, and requests outside
/// of any attempt are left as they are. The attempt is that of the task that calls the service, so
/// this layer goes outside of layers that move requests to a task of their own, as `tower::buffer`
/// does.
#[derive(Clone, Debug)]
pub struct DerivedKeyLayer {
    name: Cow<'static, str>,
    header: HeaderName,
}

impl DerivedKeyLayer {
    /// Creates a layer for a client of the service of this name.
    ///
    /// The name is part of the keys. If it changes between two attempts, the other service takes
    /// the second one's requests for new ones.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), header: IDEMPOTENCY_KEY }
    }

    /// Sets the header that carries the key; `Idempotency-Key` by default.
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> Self {
        self.header = name;
        self
    }

    fn add_to(&self, headers: &mut HeaderMap, method: &Method, path: &str, name: Option<&KeyName>) {
        if method.is_safe() || headers.contains_key(&self.header) {
            return;
        }
        let derived = match name {
            Some(KeyName(name)) => derived(name),
            None => derived(&format!("{} {method} {path}", self.name)),
        };
        if let Some(key) = derived {
            headers.insert(self.header.clone(), key);
        }
    }
}

/// The key that the current attempt, if there is one, derives under a name.
pub(crate) fn derived(name: &str) -> Option<HeaderValue> {
    let mut key = HeaderValue::try_from(current()?.derived_key(name)).ok()?;
    // Hidden in `Debug`, because requests end up in logs.
    key.set_sensitive(true);
    Some(key)
}

/// Names the key of one request, in place of the layer's name and the request's path: an extension of
/// the request.
///
/// ```
/// use http::Request;
/// use idempotent_http::downstream::KeyName;
///
/// let deposit = Request::post("https://example.com/v1/charges")
///     .extension(KeyName::new("charge.deposit"))
///     .body("amount=5")?;
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyName(Cow<'static, str>);

impl KeyName {
    /// Names the key, which is [`derived_key`](idempotent_runtime::Current::derived_key) of this
    /// name.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self(name.into())
    }
}

impl<S> Layer<S> for DerivedKeyLayer {
    type Service = DerivedKeyService<S>;

    fn layer(&self, inner: S) -> DerivedKeyService<S> {
        DerivedKeyService { inner, layer: self.clone() }
    }
}

/// A client behind a [`DerivedKeyLayer`].
#[derive(Clone, Debug)]
pub struct DerivedKeyService<S> {
    inner: S,
    layer: DerivedKeyLayer,
}

impl<S, B> Service<Request<B>> for DerivedKeyService<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        let (mut parts, body) = request.into_parts();
        let name = parts.extensions.get::<KeyName>();
        self.layer.add_to(&mut parts.headers, &parts.method, parts.uri.path(), name);
        self.inner.call(Request::from_parts(parts, body))
    }
}

#[cfg(feature = "client")]
impl<S> Service<reqwest::Request> for DerivedKeyService<S>
where
    S: Service<reqwest::Request>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: reqwest::Request) -> S::Future {
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        self.layer.add_to(request.headers_mut(), &method, &path, None);
        self.inner.call(request)
    }
}
