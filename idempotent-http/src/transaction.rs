//! Handlers in database transactions: the response and the rows of its handler are committed
//! together.
//!
//! The layer begins a transaction, claims the key in it, and puts it into the request's extensions.
//! The handler takes it, and gives it back by dropping it. The response then decides:
//!
//! | response | rows | key |
//! | --- | --- | --- |
//! | stored, 2xx or 3xx | committed | keeps the response |
//! | stored, 4xx or 5xx | undone | keeps the response |
//! | not stored | undone | free |
//!
//! So a key is free exactly if nothing of its handler is left.

mod run;
mod slot;

pub use self::slot::{TransactionRejection, TransactionSlot};

use self::run::InTransaction;
use crate::body::{BoxError, ResponseBody};
use crate::execution::{Execution as _, Unkeyed, pass};
use crate::extract;
use crate::layer::IdempotencyLayer;
use crate::request_body::RequestBody;
use crate::response::Answer;
use crate::service::{Guarded, Lacks, handle, outer_layer_refused};
use crate::settings::Settings;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use idempotent_runtime::protocol::TransactionSource;
use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Response extension with which a handler reports that a statement of its transaction lost a race
/// against another transaction: a serialization failure or a deadlock.
///
/// A [`TransactionalLayer`] then rolls back and calls the handler again with the same request, in a
/// new transaction, a few times. The last response goes to the client, and the key is free. Without
/// a key the handler is not called again. Other layers take no notice of it.
#[derive(Clone, Copy, Debug)]
pub struct LostRace;

impl IdempotencyLayer {
    /// Runs handlers in transactions of `source`, so that their rows and their stored response are
    /// committed together, before the response is sent. The records of the instance must be in the
    /// same database.
    ///
    /// `idempotent-sql` has the sources: `Transactions::of(&pool)`. Its `Lent<Pool>` is the extractor
    /// with which a handler takes the transaction. Other settings are made before this one.
    ///
    /// ```
    /// use idempotent_http::{IdempotencyLayer, TransactionalLayer};
    /// use idempotent_runtime::Idempotency;
    /// use idempotent_runtime::protocol::TransactionSource;
    ///
    /// fn layer<X: TransactionSource>(idem: &Idempotency, database: X) -> TransactionalLayer<X> {
    ///     IdempotencyLayer::new(idem, "shop").require_key().transactional(database)
    /// }
    /// ```
    ///
    /// # Commit or rollback
    /// A response that is stored and whose status is 2xx or 3xx commits the rows. One that is stored
    /// with another status, such as 422, undoes them, and is replayed like any other. One that is not
    /// stored, such as a 5xx, undoes them and frees the key. The status of a gRPC call counts as the
    /// HTTP status that it stands for.
    ///
    /// A response that is too large to be stored, or that is a [stream](crate::Streaming), commits
    /// or undoes by its status; repeats are told that it was not retained (409). It is sent after the
    /// commit, and its body must not use the transaction.
    ///
    /// # Differences to a layer without transactions
    /// * A handler ends with its client: if the client goes away, the handler is dropped, its rows are
    ///   rolled back, and the key is free. A commit that has begun is finished, and a repeat gets the
    ///   response.
    /// * A handler may be called again with the same request, in a new transaction: if its commit
    ///   loses a race against another transaction, or if it reports one with [`LostRace`]. Only its
    ///   rows are undone then, not other effects.
    /// * A handler that keeps its transaction beyond its response is refused (500 `misconfigured`),
    ///   unless its response frees the key anyway, and a transaction that cannot be committed as well
    ///   (503 `not-committed`). Nothing is left of either.
    /// * A request without a key, where keys are optional, runs in a transaction without a record,
    ///   which a status of 2xx or 3xx commits. So does every guarded request if the layer is
    ///   [disabled](Self::enabled) or [only sets the ambient key](Self::ambient_only).
    /// * A lease is not needed, so [`lease`](Self::lease) and [`abandon`](Self::abandon) change nothing.
    pub fn transactional<X: TransactionSource>(self, source: X) -> TransactionalLayer<X> {
        TransactionalLayer { settings: self.settings(), source }
    }
}

/// Makes the requests of a service idempotent by their key, and runs their handlers in
/// transactions. See [`IdempotencyLayer::transactional`].
///
/// ```
/// use axum::Router;
/// use axum::routing::post;
/// use idempotent_http::{IdempotencyLayer, TransactionalLayer};
/// use idempotent_runtime::Idempotency;
/// use idempotent_runtime::protocol::TransactionSource;
///
/// /// With `idempotent-sql`, `database` is `Transactions::of(&pool)`.
/// fn layer<X: TransactionSource>(idem: &Idempotency, database: X) -> TransactionalLayer<X> {
///     IdempotencyLayer::new(idem, "shop").require_key().transactional(database)
/// }
/// ```
#[derive(Clone)]
pub struct TransactionalLayer<X> {
    settings: Arc<Settings>,
    source: X,
}

impl<X> fmt::Debug for TransactionalLayer<X> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TransactionalLayer")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<S, X: Clone> Layer<S> for TransactionalLayer<X> {
    type Service = TransactionalService<S, X>;

    fn layer(&self, inner: S) -> Self::Service {
        self.settings.report();
        let (settings, source) = (Arc::clone(&self.settings), self.source.clone());
        TransactionalService { inner, settings, source }
    }
}

/// A service behind a [`TransactionalLayer`].
#[derive(Clone)]
pub struct TransactionalService<S, X> {
    inner: S,
    settings: Arc<Settings>,
    source: X,
}

impl<S: fmt::Debug, X> fmt::Debug for TransactionalService<S, X> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TransactionalService")
            .field("inner", &self.inner)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<S, X, B, R> Service<Request<B>> for TransactionalService<S, X>
where
    X: TransactionSource,
    X::Lent: 'static,
    S: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError> + Send,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Answer<R, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // `poll_ready` was called on `self.inner`, so that one is called and its clone takes its
        // place.
        let next = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, next);
        let (settings, source) = (Arc::clone(&self.settings), self.source.clone());
        let execution = InTransaction(source);
        if !settings.covers(request.method()) {
            extract::put(request.extensions_mut(), None);
            return Box::pin(pass(inner, request.map(RequestBody::passed)));
        }
        match request.extensions().get::<Guarded>() {
            None if !settings.is_enabled => {
                extract::put(request.extensions_mut(), None);
                let request = request.map(RequestBody::passed);
                Box::pin(execution.pass(Unkeyed { settings, inner, request }))
            }
            None => Box::pin(handle(settings, execution, inner, request)),
            Some(Guarded { is_scoped: false, .. }) if settings.scope.is_some() => {
                Box::pin(ready(Ok(outer_layer_refused(&settings, request, Lacks::Scope))))
            }
            // Its record would not be committed with the rows.
            Some(Guarded { is_transacted: false, .. }) => {
                Box::pin(ready(Ok(outer_layer_refused(&settings, request, Lacks::Transactions))))
            }
            Some(_) => Box::pin(pass(inner, request.map(RequestBody::passed))),
        }
    }
}
