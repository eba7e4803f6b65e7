//! The record of a key, for operators: inspect, forget, resolve.

use crate::exchange::Exchange;
use crate::identity::Identity;
use crate::keeping::note_headers;
use crate::layer::IdempotencyLayer;
use crate::settings::{Host, Settings};
use bytes::Bytes;
use http::{Method, Response, StatusCode};
use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::key::{KeyPart, RecordKey};
use idempotent_runtime::protocol::{Forgotten, Resolved};
use idempotent_runtime::store::{Record, State};
use idempotent_runtime::{AnswerPolicy, Error, Operation, Resolution};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A response from the store, which is never streamed.
type Stored = Exchange<std::convert::Infallible>;

impl IdempotencyLayer {
    /// The record that requests with this method, path and key share.
    ///
    /// The path is the one that clients send, including the prefix of nested routers and with its
    /// escapes; a query is cut off. The key is given without the quotes of the header. If the layer
    /// has a [`scope`](Self::scope), [`RecordHandle::scope`] must name it.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::{Method, Response};
    /// use idempotent_http::IdempotencyLayer;
    /// use idempotent_runtime::{Abandon, Idempotency};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let idem = Idempotency::in_memory()?;
    /// let layer = IdempotencyLayer::new(&idem, "shop").abandon(Abandon::Block);
    /// // A client reports 409 `outcome-unknown` for its key, and the bank says that it was charged.
    /// let record = layer.record(Method::POST, "/payments", "7f3a");
    /// if record.get().await?.is_some_and(|found| found.is_blocked()) {
    ///     let response = Response::builder().status(201).body("charged")?;
    ///     record.resolve(response).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn record(
        &self,
        method: Method,
        path: impl Into<String>,
        key: impl Into<String>,
    ) -> RecordHandle {
        let mut path = path.into();
        if let Some(query) = path.find(['?', '#']) {
            path.truncate(query);
        }
        let (settings, key) = (self.settings(), key.into());
        let host = (settings.host == Host::PartOfTheKey).then(String::new);
        RecordHandle { settings, method, path, key, host, scope: None, ambient: Ambient::new() }
    }
}

/// Handle to the record of one key, which need not exist. See [`IdempotencyLayer::record`].
///
/// `Debug` does not show the key.
///
/// ```
/// use http::Method;
/// use idempotent_http::IdempotencyLayer;
/// use idempotent_runtime::Idempotency;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let layer = IdempotencyLayer::new(&Idempotency::in_memory()?, "shop").scope(|_| Some("ada".to_owned()));
/// let record = layer.record(Method::POST, "/orders", "7f3a").scope("ada");
/// match record.get().await? {
///     Some(found) => println!("{:?}, for {:?}", found.state, found.expires_in),
///     None => println!("no request with this key has been handled"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a handle does nothing until it is asked for something"]
pub struct RecordHandle {
    settings: Arc<Settings>,
    method: Method,
    path: String,
    key: String,
    host: Option<String>,
    scope: Option<String>,
    ambient: Ambient,
}

/// A record with its response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredExchange {
    /// The state of the record.
    pub state: State,
    /// The number of the attempt that wrote it last: how often a handler began, or was about to
    /// begin.
    pub attempt: u32,
    /// The stored response, as a repeat gets it; `None` if there is none, or if it was not kept.
    pub response: Option<Response<Bytes>>,
    /// The status that the handler answered with; of a response that was not kept, too, unless an
    /// operator resolved the key without one.
    pub status: Option<StatusCode>,
    /// The remaining lease; zero if no attempt holds the key.
    pub lease_left: Duration,
    /// The time until the record expires.
    pub expires_in: Duration,
    blocked: bool,
}

impl StoredExchange {
    /// Returns `true` if the outcome of the request is unknown and the key waits for a decision:
    /// repeats get 409 `outcome-unknown` until it is resolved or forgotten.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Returns `true` if a request with the key is being handled.
    pub fn is_in_progress(&self) -> bool {
        self.state == State::Processing && !self.lease_left.is_zero()
    }
}

impl RecordHandle {
    /// Names the scope of the requests, as the layer's [`scope`](IdempotencyLayer::scope) returned
    /// it.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }

    /// Names the host that clients sent the requests to, with its port if they named one. It counts if
    /// the layer has [`key_host`](IdempotencyLayer::key_host), and must be named then.
    pub fn host(mut self, host: impl AsRef<str>) -> Self {
        if self.settings.host == Host::PartOfTheKey {
            self.host = Some(host.as_ref().to_ascii_lowercase());
        }
        self
    }

    /// Names the ambient scope that another adapter had put in place around the layer, such as an
    /// outer layer with [`ambient_only`](IdempotencyLayer::ambient_only). Without this there is
    /// none: the ambient scope of the caller does not count.
    pub fn ambient_scope(mut self, scope: impl KeyPart) -> Self {
        self.ambient = Ambient::new().scope(scope);
        self
    }

    /// Returns the record, if there is one.
    ///
    /// # Errors
    /// The scope is missing, the store does not answer, or the stored response cannot be read.
    pub async fn get(&self) -> Result<Option<StoredExchange>, Error> {
        self.with_ambient(async {
            let operation = self.operation();
            operation.get().await?.map(|record| read(&operation, &record)).transpose()
        })
        .await
    }

    /// Removes the record, so that the next request with the key is handled. A record that is in
    /// progress or blocked stays, unless `force` is set; the answer of its handler is then dropped.
    ///
    /// # Errors
    /// The scope is missing, or the store does not answer. A `forget` that returned an error may still take effect: repeat
    /// it.
    pub async fn forget(&self, force: bool) -> Result<Forgotten, Error> {
        self.with_ambient(async { self.operation().forget(force).await }).await
    }

    /// Ends a blocked key: it was handled, and repeats get this response, for the layer's
    /// [`retention`](IdempotencyLayer::retention).
    ///
    /// Status, headers and body are replayed as they are given, except for headers that are never
    /// replayed, such as `Set-Cookie`. The next request still has to have the payload of the first.
    ///
    /// # Errors
    /// The scope is missing, the response cannot be stored (it is interim, or larger than
    /// `max_value_bytes`), or the store does not answer.
    pub async fn resolve(&self, response: Response<impl Into<Bytes>>) -> Result<Resolved, Error> {
        let mut response = response.map(Into::into);
        note_headers(&self.settings, &mut response);
        let whole = Stored::Whole { response, trailers: None };
        self.end(Resolution::Succeeded(Some(&whole))).await
    }

    /// Ends a blocked key: it was handled, and its response is lost. Repeats get 409
    /// `result-not-retained`.
    ///
    /// # Errors
    /// The scope is missing, or the store does not answer.
    pub async fn resolve_without_response(&self) -> Result<Resolved, Error> {
        self.end(Resolution::Succeeded(None)).await
    }

    /// Ends a blocked key: it was not handled, and the next request with the key is.
    ///
    /// # Errors
    /// The scope is missing, or the store does not answer.
    pub async fn resolve_as_retry(&self) -> Result<Resolved, Error> {
        self.end(Resolution::Retry).await
    }

    /// The name of the record in the store.
    ///
    /// # Errors
    /// The scope is missing.
    pub fn record_key(&self) -> Result<RecordKey, Error> {
        ambient::sync_scope(self.ambient.clone(), || self.operation().record_key())
    }

    async fn end(&self, resolution: Resolution<Option<&Stored>>) -> Result<Resolved, Error> {
        let answers = AnswerPolicy::<Stored, Error>::bytes();
        self.with_ambient(async { self.operation().resolve_as(answers, resolution).await }).await
    }

    fn operation(&self) -> Operation<'_> {
        // A layer with a scope has no records without one. An empty scope is refused.
        let unknown = self.settings.scope.as_ref().map(|_| "");
        let scope = self.scope.as_deref().or(unknown);
        let Self { method, path, key, .. } = self;
        let host = self.host.as_deref().map(Cow::Borrowed);
        Identity { method, path, host, key, scope }.operation(&self.settings)
    }

    /// Runs a verb with the ambient scope of the handle, not with that of a handler that calls it.
    async fn with_ambient<F: Future>(&self, verb: F) -> F::Output {
        ambient::scope(self.ambient.clone(), verb).await
    }
}

/// A record and its response.
pub(crate) fn read(operation: &Operation<'_>, record: &Record) -> Result<StoredExchange, Error> {
    let stored = operation.value_of(record, AnswerPolicy::<Stored, Error>::bytes())?;
    let (response, status) = match stored {
        Some(Exchange::Whole { response, .. }) => {
            let status = response.status();
            (Some(response), Some(status))
        }
        Some(Exchange::Live(response)) => (None, Some(response.status())),
        Some(Exchange::Flowed(status)) => (None, Some(status)),
        None => (None, None),
    };
    let Record { head, ttl, .. } = record;
    let lease_left = match head.state {
        State::Processing => head.lease_left(*ttl),
        _ => Duration::ZERO,
    };
    Ok(StoredExchange {
        state: head.state,
        attempt: head.attempt.number,
        response,
        status,
        lease_left,
        expires_in: *ttl,
        blocked: record.is_blocked(),
    })
}

impl fmt::Debug for RecordHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RecordHandle")
            .field("service", &self.settings.operation)
            .field("method", &self.method)
            .field("path", &self.path)
            .field("scoped", &self.scope.is_some())
            .finish_non_exhaustive()
    }
}
