//! One request on its way through the layer.

use crate::body::{BoxError, ResponseBody, Unread, gather, read};
use crate::exchange::Exchange;
use crate::identity::{Identity, Known, known, misconfigured, operation, place};
use crate::panics::catch_panic;
use crate::quota::{self, NewKey};
use crate::response::{Answer, Kept, NoAnswer, Sorted, answer, keep, sort};
use crate::settings::{Settings, Usage};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use idempotent_runtime::observe::{self, PendingCall};
use idempotent_runtime::problem::{Problem, ProblemType};
use idempotent_runtime::{Ambient, Answers, ambient};
use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// A handler puts this into its response's extensions if the response is not to be stored: the key
/// is freed, and a repeat runs the handler again.
#[derive(Clone, Copy, Debug)]
pub struct NoStore;

/// A handler puts this into its response's extensions if the body is a stream that must flow at
/// once: it is not stored, and a repeat is told so.
#[derive(Clone, Copy, Debug)]
pub struct Streaming;

/// Marks a request that a layer guards, so that another one further in leaves it alone.
#[derive(Clone, Copy, Debug)]
struct Guarded {
    is_scoped: bool,
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
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
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

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The service that said it is ready is the one to call.
        let next = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, next);
        let settings = Arc::clone(&self.settings);
        if !settings.guards(request.method()) {
            return Box::pin(pass(inner, request));
        }
        match request.extensions().get::<Guarded>() {
            None => Box::pin(handle(settings, inner, request)),
            Some(Guarded { is_scoped: false }) if settings.scope.is_some() => {
                let (parts, _) = request.into_parts();
                let call = PendingCall::new(&settings.operation);
                let refused = settings.refusals.refuse(call, &scope_ignored(&settings), &parts);
                Box::pin(ready(Ok(refused)))
            }
            Some(_) => Box::pin(pass(inner, request)),
        }
    }
}

async fn pass<S, B, R>(mut inner: S, request: Request<B>) -> Answer<R, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    Ok(inner.call(request).await?.map(ResponseBody::passed))
}

fn handle<S, B, R>(
    settings: Arc<Settings>,
    inner: S,
    request: Request<B>,
) -> impl Future<Output = Answer<R, S::Error>> + Send
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    // Not an async function: its arguments would lie in its future twice.
    let (mut parts, body) = request.into_parts();
    async move {
        // What is refused here is reported here, and what an operation refuses, by the operation.
        let call = PendingCall::new(&settings.operation);
        let Known { key, scope } = match known(&settings, settings.presence, &parts) {
            Ok(known) => known,
            Err(problem) => return Ok(settings.refusals.refuse(call, &problem, &parts)),
        };
        let key = match (settings.usage, key) {
            (Usage::Exchange, Some(key)) => key,
            // A function further in has keys of its own: its scope does not depend on the client's
            // key.
            (_, key) => {
                call.hand_over();
                // Boxed: this path must not make the future of guarded requests larger.
                let pass = Box::pin(pass(inner, Request::from_parts(parts, body)));
                return ambient::scope(place(key, scope.as_deref()), pass).await;
            }
        };
        let body = match read(body, settings.max_request_bytes).await {
            Ok(body) => body,
            Err(unread) => {
                return Ok(settings.refusals.refuse(call, &unread_problem(&unread), &parts));
            }
        };
        let identity = Identity::of(&parts, &key, scope.as_deref());
        let admitted = match &settings.quota {
            None => Ok(None),
            // Boxed: it must not make the future of requests larger that are not counted.
            Some(quota) => Box::pin(quota::admit(quota, &settings, identity)).await,
        };
        let new_key = match admitted {
            Ok(new_key) => new_key,
            Err(problem) => return Ok(settings.refusals.refuse(call, &problem, &parts)),
        };
        call.hand_over();
        let head = settings.refusals.remember(&parts);
        let ran = {
            let operation = operation(&settings, &parts, &body, &key, scope.as_deref());
            let place = place(Some(key), scope.as_deref());
            parts.extensions.insert(Guarded { is_scoped: place.scope.is_some() });
            let request = Request::from_parts(parts, B::from(body));
            let handler = handler(Arc::clone(&settings), inner, request, place, new_key);
            catch_panic(pin!(operation.run_detached(Answers::bytes(), handler))).await
        };
        answer(ran, |problem| {
            observe::refused(&settings.operation, problem.kind());
            settings.refusals.response(problem, head.as_deref()).map(ResponseBody::of)
        })
    }
}

/// The outer layer would hand one principal's response to another, whatever this one's scope says.
fn scope_ignored(settings: &Settings) -> Problem {
    let layer: &str = &settings.operation;
    tracing::error!(target: "idempotent", layer, "a layer without a scope is around one with a scope");
    misconfigured()
}

fn unread_problem(unread: &Unread) -> Problem {
    match unread {
        Unread::TooLarge => {
            let detail = "keyed requests are read whole, up to a limit (it was not handled)";
            Problem::new(ProblemType::BodyTooLarge, detail)
        }
        Unread::Incomplete => {
            Problem::new(ProblemType::BodyIncomplete, "it was cut off (it was not handled)")
        }
    }
}

/// The handler, and what is kept of its response. Boxed: it is large, and handed on several times.
fn handler<S, B, R>(
    settings: Arc<Settings>,
    mut inner: S,
    request: Request<B>,
    place: Ambient,
    new_key: Option<NewKey>,
) -> Pin<Box<impl Future<Output = Kept<R, S::Error>> + Send>>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    Box::pin(ambient::scope(place, async move {
        if let Some(new_key) = new_key {
            new_key.starts();
        }
        let response = inner.call(request).await.map_err(NoAnswer::Failed)?;
        // What the instance would not keep is not read either.
        let most = settings.instance.config().max_value_bytes;
        let limit = settings.max_response_bytes.min(most);
        let (parts, body) = match sort(&settings, response, limit) {
            Sorted::Kept(parts, body) => (parts, body),
            Sorted::Live(response, why) => return Ok(Box::new(Exchange::Live(response, why))),
            Sorted::Freed(response) => return Err(NoAnswer::Freed(Box::new(response))),
        };
        keep(parts, gather(body, limit).await, most)
    }))
}
