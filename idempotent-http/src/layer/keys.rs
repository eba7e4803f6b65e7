//! Settings about keys and their owners.

use super::IdempotencyLayer;
use crate::key::KeySource;
use crate::scope::Scope;
use crate::settings::Host;
use http::request::Parts;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;

impl IdempotencyLayer {
    /// Makes the host that a request is sent to a part of its key; off by default.
    ///
    /// For services that answer for several hosts. The host is the authority of the request or its
    /// `Host` header, in lower case: a proxy in front of the service has to pass it on as the
    /// client sent it. Ambient keys ([`ambient_only`](Self::ambient_only)) do not change; there,
    /// put the host into the [`scope`](Self::scope).
    #[must_use]
    pub fn key_host(self, is_part: bool) -> Self {
        self.with(|it| it.host = if is_part { Host::PartOfTheKey } else { Host::Ignored })
    }

    /// Adds a source of keys: a member of a JSON body, a field of a form, or a function.
    ///
    /// Can be called several times. If a request has several keys, they must agree. `.headers([])`
    /// removes the headers as sources.
    ///
    /// ```
    /// use idempotent_http::{IdempotencyLayer, KeySource};
    /// use idempotent_runtime::Idempotency;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idem = Idempotency::in_memory()?;
    /// // A second click sends the same hidden field, and gets the first answer.
    /// let forms = IdempotencyLayer::new(&idem, "shop").key_from(KeySource::form_field("order_token"));
    /// # drop(forms);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn key_from(self, source: KeySource) -> Self {
        self.with(|it| it.sources.body.push(source))
    }

    /// Refuses keys for which this returns an error (400 `invalid-key`). The client reads the error's
    /// text, which must not hold the key.
    ///
    /// If it panics, the request is answered with 500 and not handled.
    ///
    /// ```
    /// use idempotent_http::IdempotencyLayer;
    /// use idempotent_runtime::Idempotency;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idem = Idempotency::in_memory()?;
    /// let layer = IdempotencyLayer::new(&idem, "shop").validate_key(|key| match key.len() {
    ///     16.. => Ok(()),
    ///     _ => Err("a key needs 16 characters or more".to_owned()),
    /// });
    /// # drop(layer);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn validate_key(
        self,
        validate: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.with(|it| it.validate_key = Some(Arc::new(validate)))
    }

    /// Like [`scope`](Self::scope), for a scope that has to be looked up, such as that of a
    /// session.
    ///
    /// `None` refuses a request with a key (403 `scope-missing`). An error refuses every guarded
    /// request (503 `scope-unavailable`) and is logged; so does a panic (500). In no case is the request
    /// handled.
    ///
    /// ```
    /// use idempotent_http::IdempotencyLayer;
    /// use idempotent_runtime::Idempotency;
    ///
    /// async fn user_of(session: String) -> Result<Option<String>, std::io::Error> {
    ///     Ok((session == "s-1").then(|| "ada".to_owned()))
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idem = Idempotency::in_memory()?;
    /// let layer = IdempotencyLayer::new(&idem, "shop").scope_async(|request| {
    ///     // What is needed of the request is taken along.
    ///     let session = request.headers.get("session").and_then(|it| it.to_str().ok());
    ///     let session = session.unwrap_or_default().to_owned();
    ///     async move { user_of(session).await }
    /// });
    /// # drop(layer);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn scope_async<F, L, E>(self, scope: F) -> Self
    where
        F: Fn(&Parts) -> L + Send + Sync + 'static,
        L: Future<Output = Result<Option<String>, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.with(|it| {
            it.scope = Some(Scope::Later(Arc::new(move |parts| {
                let lookup = scope(parts);
                Box::pin(async move { lookup.await.map_err(Into::into) })
            })));
        })
    }
}
