//! One request on its way through the layer.

use crate::body::{BoxError, Gathered, ResponseBody, Unread, gather, read};
use crate::exchange::Exchange;
use crate::headers::has_media_type;
use crate::problem::{CODE, internal_error, respond};
use crate::settings::{Presence, Settings, Usage};
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, response};
use http_body::Body;
use idempotent_runtime::problem::{Problem, ProblemType};
use idempotent_runtime::{Ambient, Answers, Error, Mode, Operation, Outcome, ambient};
use std::future::{Future, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
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

type Answer<B, E> = Result<Response<ResponseBody<B>>, E>;

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
                Box::pin(ready(Ok(respond(&scope_ignored(&settings)))))
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
        let known = catch_unwind(AssertUnwindSafe(|| known(&settings, &parts)));
        let Known { key, scope } = match known {
            Ok(Ok(known)) => known,
            Ok(Err(problem)) => return Ok(respond(&problem)),
            // The scope's resolver: nobody is known, and nothing is handled.
            Err(_) => return Ok(internal_error()),
        };
        let key = match (settings.usage, key) {
            (Usage::Exchange, Some(key)) => key,
            // A function further in has keys of its own: its scope does not depend on the client's
            // key.
            (_, key) => {
                // Boxed: this path must not make the future of guarded requests larger.
                let pass = Box::pin(pass(inner, Request::from_parts(parts, body)));
                return ambient::scope(place(key, scope.as_deref()), pass).await;
            }
        };
        let body = match read(body, settings.max_request_bytes).await {
            Ok(body) => body,
            Err(unread) => return Ok(respond(&unread_problem(&unread))),
        };
        let ran = {
            let operation = operation(&settings, &parts, &body, &key, scope.as_deref());
            let place = place(Some(key), scope.as_deref());
            parts.extensions.insert(Guarded { is_scoped: place.scope.is_some() });
            let request = Request::from_parts(parts, B::from(body));
            let handler = handler(Arc::clone(&settings), inner, request, place);
            catch_panic(pin!(operation.run_detached(Answers::bytes(), handler))).await
        };
        answer(ran)
    }
}

/// The outer layer would hand one principal's response to another, whatever this one's scope says.
fn scope_ignored(settings: &Settings) -> Problem {
    let layer: &str = &settings.operation;
    tracing::error!(target: "idempotent", layer, "a layer without a scope is around one with a scope");
    let kind = ProblemType::Misconfigured;
    Problem::new(kind, format!("{} (it was not handled)", kind.title()))
}

/// What tells a request from others.
struct Known {
    key: Option<String>,
    scope: Option<String>,
}

/// The key of a request, and on whose behalf it is made. Nobody can use a key.
fn known(settings: &Settings, parts: &Parts) -> Result<Known, Problem> {
    let key = settings.sources.key(parts)?;
    if key.is_none() && settings.presence == Presence::Required {
        let detail = format!("send {} (it was not handled)", settings.sources);
        return Err(Problem::new(ProblemType::MissingKey, detail));
    }
    let scope = match &settings.scope {
        None => None,
        Some(scope_of) => {
            let scope = scope_of(parts).filter(|scope| !scope.is_empty());
            if key.is_some() && scope.is_none() {
                let detail = "nobody is known to make this request (it was not handled)";
                return Err(Problem::new(ProblemType::ScopeMissing, detail));
            }
            scope
        }
    };
    Ok(Known { key, scope })
}

/// What is in place for the handler: what another layer put there, and what is known here.
fn place(key: Option<String>, scope: Option<&str>) -> Ambient {
    let mut place = ambient::current().unwrap_or_default();
    if let Some(key) = key {
        place = place.token(key);
    }
    if let Some(scope) = scope {
        place = place.scope(scope);
    }
    place
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

/// Why there is no answer to keep.
enum NoAnswer<R, E> {
    Refused(Error),
    /// The response goes to its client, and the key is freed.
    Freed(Box<Response<ResponseBody<R>>>),
    /// The inner service failed.
    Failed(E),
}

impl<R, E> From<Error> for NoAnswer<R, E> {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// What a handler makes of a request, for the instance.
///
/// Boxed, because it is handed on several times.
type Kept<R, E> = Result<Box<Exchange<R>>, NoAnswer<R, E>>;

/// What the instance makes of it.
type Ran<R, E> = Result<Outcome<Box<Exchange<R>>>, NoAnswer<R, E>>;

/// What the instance is asked to run.
fn operation<'a>(
    settings: &'a Settings,
    parts: &Parts,
    body: &[u8],
    key: &str,
    scope: Option<&str>,
) -> Operation<'a> {
    let mut operation = settings
        .instance
        .operation(settings.operation.clone())
        .key((parts.method.as_str(), path(parts), key))
        .mode(Mode::Strong)
        .wait(settings.wait)
        .expire(settings.retention);
    if let Some(scope) = scope {
        operation = operation.scope(scope);
    }
    if let Some(fingerprint) = settings.payload.fingerprint(parts.uri.query(), body) {
        operation = operation.fingerprint(fingerprint);
    }
    if let Some(retry_after) = settings.retry_after {
        operation = operation.retry_after(retry_after);
    }
    if let Some(lease) = settings.lease {
        operation = operation.lease(lease);
    }
    if let Some(abandon) = settings.abandon {
        operation = operation.abandon(abandon);
    }
    operation
}

/// The handler, and what is kept of its response. Boxed: it is large, and handed on several times.
fn handler<S, B, R>(
    settings: Arc<Settings>,
    mut inner: S,
    request: Request<B>,
    place: Ambient,
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
        let response = inner.call(request).await.map_err(NoAnswer::Failed)?;
        // What the instance would not keep is not read either.
        let most = settings.instance.config().max_value_bytes;
        let limit = settings.max_response_bytes.min(most);
        let (parts, body) = match sort(&settings, response, limit) {
            Sorted::Kept(parts, body) => (parts, body),
            Sorted::Live(response) => return Ok(Box::new(Exchange::Live(response))),
            Sorted::Freed(response) => return Err(NoAnswer::Freed(Box::new(response))),
        };
        keep(parts, gather(body, limit).await, most)
    }))
}

fn answer<R, E>(ran: Result<Ran<R, E>, Panicked>) -> Answer<R, E> {
    match ran {
        Err(Panicked) => Ok(internal_error()),
        Ok(Ok(outcome)) if outcome.replayed => Ok(outcome.value.into_replay()),
        Ok(Ok(outcome)) => Ok(outcome.value.into_first()),
        Ok(Err(NoAnswer::Freed(response))) => Ok(*response),
        Ok(Err(NoAnswer::Failed(error))) => Err(error),
        Ok(Err(NoAnswer::Refused(error))) => Ok(respond(&refusal(&error))),
    }
}

fn refusal(error: &Error) -> Problem {
    let problem = Problem::from(error);
    if problem.kind().status() == 500 {
        // The client is told to tell the operators, who find the reason here only.
        tracing::error!(target: "idempotent", %error, "refused");
    }
    problem
}

/// The path that the client sent.
fn path(parts: &Parts) -> &str {
    // A router that nests another one takes its prefix off before inner layers see the path.
    #[cfg(feature = "axum")]
    if let Some(original) = parts.extensions.get::<axum::extract::OriginalUri>() {
        return original.path();
    }
    parts.uri.path()
}

/// Whether a response is stored, flows, or frees its key.
enum Sorted<R> {
    /// If it is not too large.
    Kept(response::Parts, R),
    Live(Response<ResponseBody<R>>),
    Freed(Response<ResponseBody<R>>),
}

fn sort<R: Body>(settings: &Settings, response: Response<R>, limit: usize) -> Sorted<R> {
    let is_stored = settings.stores(response.status())
        && response.extensions().get::<NoStore>().is_none()
        && !is_transient_problem(&response);
    if !is_stored {
        return Sorted::Freed(response.map(ResponseBody::passed));
    }
    if is_stream(&response, limit) {
        return Sorted::Live(response.map(ResponseBody::passed));
    }
    let (parts, body) = response.into_parts();
    Sorted::Kept(parts, body)
}

/// What is kept of a response whose body was read.
fn keep<R: Body, E>(
    parts: response::Parts,
    gathered: Result<Gathered<R>, R::Error>,
    most: usize,
) -> Kept<R, E> {
    match gathered {
        Ok(Gathered::Whole(body, trailers)) => {
            let whole = Exchange::Whole { response: Response::from_parts(parts, body), trailers };
            Ok(Box::new(if whole.fits(most) { whole } else { whole.into_live() }))
        }
        Ok(Gathered::Live(body)) => Ok(Box::new(Exchange::Live(Response::from_parts(parts, body)))),
        // The handler's body broke off: what the client would get is not an answer.
        Err(_) => Err(NoAnswer::Freed(Box::new(internal_error()))),
    }
}

/// Whether a function further in was refused for a reason that passes, whatever the status says.
pub(crate) fn is_transient_problem<R>(response: &Response<R>) -> bool {
    let code = response.headers().get(CODE).and_then(|code| code.to_str().ok());
    code.and_then(ProblemType::from_code).is_some_and(ProblemType::is_transient)
}

fn is_stream<R: Body>(response: &Response<R>, limit: usize) -> bool {
    // What follows a change of protocols is not in the response.
    response.status().is_informational()
        || has_media_type(response.headers(), "text/event-stream")
        || response.extensions().get::<Streaming>().is_some()
        || response.body().size_hint().lower() > limit as u64
}

/// A handler panicked.
pub(crate) struct Panicked;

/// A panic ends here, so that the client gets an answer.
pub(crate) fn catch_panic<F: Future>(
    mut future: Pin<&mut F>,
) -> impl Future<Output = Result<F::Output, Panicked>> {
    poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(_) => Poll::Ready(Err(Panicked)),
    })
}
