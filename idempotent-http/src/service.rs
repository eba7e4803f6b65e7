//! The service: the path of one request through the layer.

use crate::body::{BoxError, ResponseBody};
use crate::execution::{Execution, InPlace, Keyed, Unkeyed, pass};
use crate::extract;
use crate::identity::{Identity, Known, known, operation, place};
use crate::panics::catch_panic;
use crate::problem::{Dialect, hook_panicked, misconfigured, overloaded};
use crate::quota;
use crate::request_body::RequestBody;
use crate::response::{Answer, answer};
use crate::settings::{Settings, Usage};
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use idempotent_runtime::ambient;
use idempotent_runtime::observe::{self, PendingCall};
use idempotent_runtime::problem::{Problem, ProblemType};
use std::future::{Future, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// Response extension that keeps a response from being stored: the key is freed, and a repeat runs
/// the handler again.
#[derive(Clone, Copy, Debug)]
pub struct NoStore;

/// Response extension that marks a body as a stream: it is sent to the client at once and not
/// stored, and a repeat is told so.
#[derive(Clone, Copy, Debug)]
pub struct Streaming;

/// Marks a request that a layer guards, so that another one further in leaves it alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guarded {
    pub(crate) is_scoped: bool,
    pub(crate) is_transacted: bool,
}

/// A service behind an [`IdempotencyLayer`](crate::IdempotencyLayer).
#[derive(Clone, Debug)]
pub struct IdempotencyService<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S> IdempotencyService<S> {
    pub(crate) fn new(inner: S, settings: Arc<Settings>) -> Self {
        Self { inner, settings }
    }
}

impl<S, B, R> Service<Request<B>> for IdempotencyService<S>
where
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
        let settings = Arc::clone(&self.settings);
        if !settings.guards(request.method()) {
            extract::put(request.extensions_mut(), None);
            return Box::pin(pass(inner, request.map(RequestBody::passed)));
        }
        match request.extensions().get::<Guarded>() {
            None => Box::pin(handle(settings, InPlace, inner, request)),
            Some(Guarded { is_scoped: false, .. }) if settings.scope.is_some() => {
                Box::pin(ready(Ok(outer_layer_refused(&settings, request, Lacks::Scope))))
            }
            Some(_) => Box::pin(pass(inner, request.map(RequestBody::passed))),
        }
    }
}

/// Handles a request that the layer guards.
pub(crate) fn handle<X, S, B, R>(
    settings: Arc<Settings>,
    execution: X,
    inner: S,
    request: Request<B>,
) -> impl Future<Output = Answer<R, S::Error>> + Send
where
    X: Execution<S, B, R>,
    S: Service<Request<RequestBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    // Not an async function, whose future would hold the arguments twice.
    let (parts, body) = request.into_parts();
    let dialect = Dialect::of(&parts.headers);
    // Boxed, because a future keeps room for its arguments to its end: without the head of the request, this one and
    // that of the handler are small enough for the fast path of common allocators, which ends at a kilobyte.
    let mut parts = Box::new(parts);
    async move {
        // Refusals before an operation are reported here, later ones by the operation.
        let call = PendingCall::new(&settings.operation);
        let refuse = |call: PendingCall<'_>, problem: &Problem, parts: &Parts| {
            Ok(settings.refusals.refuse(call, problem, parts))
        };
        let Known { key, scope, body } =
            match known(&settings, settings.presence, &parts, body).await {
                Ok(known) => known,
                Err(problem) => return refuse(call, &problem, &parts),
            };
        extract::put(&mut parts.extensions, key.as_deref());
        let key = match (settings.usage, key) {
            (Usage::Exchange, Some(key)) => key,
            // Functions further in may have keys of their own, so the scope is set even if the
            // client sent no key.
            (_, key) => {
                call.hand_over();
                // Boxed, so that this path does not enlarge the future of guarded requests.
                let request = Request::from_parts(*parts, body.into_body());
                let place = place(key, scope.as_deref());
                let pass = Box::pin(execution.pass(Unkeyed { settings, inner, request }));
                return ambient::scope(place, pass).await;
            }
        };
        let body = match body.whole(settings.max_request_bytes).await {
            Ok(body) => body,
            Err(unread) => return refuse(call, &unread.problem("keyed requests"), &parts),
        };
        // In a block, so that what ends with it is not kept in the future of the handler.
        let (new_key, mut operation) = {
            let identity = Identity::of(&settings, &parts, &key, scope.as_deref());
            let admitted = match &settings.quota {
                None => Ok(None),
                // Boxed, so that it does not enlarge the future of requests that are not counted.
                Some(quota) => Box::pin(quota::admit(quota, &settings, &identity)).await,
            };
            let new_key = match admitted {
                Ok(new_key) => new_key,
                Err(problem) => return refuse(call, &problem, &parts),
            };
            // The comparison of payloads may be a function of the user's.
            let operation = || operation(&settings, &identity, &parts, body.bytes());
            match catch_unwind(AssertUnwindSafe(operation)) {
                Ok(operation) => (new_key, operation),
                Err(_) => return refuse(call, &hook_panicked("payload"), &parts),
            }
        };
        call.hand_over();
        // Asked after the quota, which waits for the store.
        let may_start = settings.may_start_handlers();
        if !may_start {
            operation = operation.repeats_only();
        }
        let head = settings.refusals.remember(&parts);
        let (client, handled) = settings.orphans.exchange();
        let running = {
            let place = place(Some(key), scope.as_deref());
            let (is_scoped, is_transacted) = (place.scope.is_some(), X::IS_TRANSACTED);
            parts.extensions.insert(Guarded { is_scoped, is_transacted });
            let settings = Arc::clone(&settings);
            execution
                .run(operation, Keyed { settings, inner, parts, body, place, new_key, handled })
        };
        let ran = catch_panic(pin!(running)).await;
        drop(client);
        answer(ran, X::refusal, |problem| {
            let overloaded = overloaded();
            let problem = match problem.kind() {
                // It asked for repeats only, so this is no word of the store's.
                ProblemType::STORE_FULL if !may_start => &overloaded,
                _ => problem,
            };
            observe::refused(&settings.operation, problem.kind());
            settings.refusals.response(problem, head.as_deref(), dialect).map(ResponseBody::of)
        })
    }
}

/// The property of this layer that the layer around it lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lacks {
    Scope,
    Transactions,
}

/// Refuses a request because of the layer around this one.
pub(crate) fn outer_layer_refused<B, R>(
    settings: &Settings,
    request: Request<B>,
    lacks: Lacks,
) -> Response<ResponseBody<R>> {
    let layer: &str = &settings.operation;
    match lacks {
        Lacks::Scope => tracing::error!(
            target: "idempotent", layer, "a layer without a scope is around one with a scope"
        ),
        Lacks::Transactions => tracing::error!(
            target: "idempotent", layer, "a layer without transactions is around one with them"
        ),
    }
    let (parts, _) = request.into_parts();
    let call = PendingCall::new(&settings.operation);
    settings.refusals.refuse(call, &misconfigured(), &parts)
}
