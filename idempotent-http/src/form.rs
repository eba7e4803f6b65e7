//! Form tokens: a page carries a token, and the first form with that token is handled.

use crate::body::{BoxError, ResponseBody, Whole};
use crate::execution::pass;
use crate::headers::has_media_type;
use crate::orphans::{MAX_ORPHANS, Orphans};
use crate::panics::{Panicked, catch_panic};
use crate::problem::{self, Dialect, handler_failed, misconfigured, overloaded};
use crate::refusal::Refusals;
use crate::request_body::{RequestBody, read};
use crate::response::{Answer, is_transient_problem, refusal};
use crate::scope::principal;
use crate::settings::{ScopeOf, is_deterministic};
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use idempotent_runtime::detach::detachable;
use idempotent_runtime::observe::{self, Ending, PendingCall};
use idempotent_runtime::problem::{Problem, ProblemType};
use idempotent_runtime::tokens::{Consumed, Tokens, UsedToken};
use idempotent_runtime::{Error, Idempotency};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tower_layer::Layer;
use tower_service::Service;

/// Issues form tokens and guards the routes that forms are sent to.
///
/// A page carries a token in a hidden field, and the layer consumes it before the handler runs. A
/// double click sends it twice: one request is handled, the other is told that the form was sent
/// before (409). The response carries the next token in a header, for pages that send further
/// forms. After an answer that another try may change (401, 403, 405, 407, 408, 411, 413, 414, 415,
/// 425, 429, 431, 5xx, a panic, a transient refusal by an `#[idempotent]` function) the same token
/// can be used again.
///
/// ```
/// use idempotent_http::FormTokens;
/// use idempotent_runtime::Idempotency;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), idempotent_runtime::Error> {
/// let idem = Idempotency::in_memory().unwrap();
/// let orders = FormTokens::new(&idem, "order");
/// let field = orders.hidden_field(&orders.issue(None).await?);
/// assert!(field.starts_with(r#"<input type="hidden" name="form_token" value=""#));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct FormTokens {
    settings: Arc<Settings>,
}

#[derive(Clone)]
pub(crate) struct Settings {
    /// Operation name in metrics and events.
    operation: String,
    instance: Idempotency,
    business_type: String,
    owner: Option<ScopeOf>,
    pub(crate) expire: Duration,
    field: String,
    header: HeaderName,
    pub(crate) max_bytes: usize,
    orphans: Arc<Orphans>,
    pub(crate) max_orphans: usize,
    pub(crate) refusals: Refusals,
}

impl FormTokens {
    /// Creates tokens for one kind of form. They are valid for ten minutes and not bound to a user.
    pub fn new(instance: &Idempotency, business_type: impl Into<String>) -> Self {
        let business_type = business_type.into();
        let settings = Settings {
            operation: Tokens::operation_name(&business_type),
            instance: instance.clone(),
            business_type,
            owner: None,
            expire: Duration::from_secs(600),
            field: "form_token".to_owned(),
            header: HeaderName::from_static("form-token"),
            max_bytes: 1 << 16,
            orphans: Arc::default(),
            max_orphans: MAX_ORPHANS,
            refusals: Refusals::default(),
        };
        Self { settings: Arc::new(settings) }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// Binds tokens to the session or user of a request. A request without one is refused (403).
    #[must_use]
    pub fn bound_to(
        self,
        owner: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.with(|it| it.owner = Some(Arc::new(owner)))
    }

    /// Sets the lifetime of tokens; ten minutes by default.
    #[must_use]
    pub fn expire(self, expire: Duration) -> Self {
        self.with(|it| it.expire = expire)
    }

    /// Sets the name of the hidden field; `form_token` by default.
    #[must_use]
    pub fn field(self, name: impl Into<String>) -> Self {
        self.with(|it| it.field = name.into())
    }

    /// Sets the header in which a script may send the token instead, and in which the next one
    /// comes back; `form-token` by default.
    #[must_use]
    pub fn header(self, name: HeaderName) -> Self {
        self.with(|it| it.header = name)
    }

    /// Sets the largest form; a larger one is refused (413). 64 KiB by default.
    #[must_use]
    pub fn max_form_bytes(self, bytes: usize) -> Self {
        self.with(|it| it.max_bytes = bytes)
    }

    /// Sets the largest number of handlers whose client has gone; 1,024 by default. Beyond that,
    /// forms are refused (503, with `Retry-After`) and their tokens stay valid.
    #[must_use]
    pub fn max_orphaned_handlers(self, handlers: usize) -> Self {
        self.with(|it| it.max_orphans = handlers)
    }

    /// Issues a token for a page that is shown to `owner`.
    ///
    /// # Errors
    /// The store does not answer or has no room.
    pub async fn issue(&self, owner: Option<&str>) -> Result<String, Error> {
        let Settings { business_type, .. } = &*self.settings;
        Ok(self.settings.tokens(owner).issue(business_type).await?.to_string())
    }

    /// Renders the hidden field with a token as HTML.
    ///
    /// It belongs in a form with `autocomplete="off"`: on a reload, Firefox restores the previous
    /// value of hidden fields, which may be a token that is already used.
    pub fn hidden_field(&self, token: &str) -> String {
        let escaped = |text: &str| {
            let escape = |character| match character {
                '&' => "&amp;".to_owned(),
                '<' => "&lt;".to_owned(),
                '"' => "&quot;".to_owned(),
                other => other.to_string(),
            };
            text.chars().map(escape).collect::<String>()
        };
        let (name, value) = (escaped(&self.settings.field), escaped(token));
        format!(r#"<input type="hidden" name="{name}" value="{value}">"#)
    }
}

impl Settings {
    fn tokens(&self, owner: Option<&str>) -> Tokens {
        let tokens = Tokens::new(&self.instance).expire(self.expire);
        match owner {
            Some(owner) => tokens.bound_to(owner),
            None => tokens,
        }
    }

    /// The owner of a form. Refused if tokens are bound and the owner is not known.
    fn owner(&self, parts: &Parts) -> Result<Option<String>, Problem> {
        match &self.owner {
            None => Ok(None),
            Some(owner) => match principal("bound_to", owner, parts)? {
                Some(owner) => Ok(Some(owner)),
                None => Err(problem(problem::SCOPE_MISSING, "nobody is known to send this form")),
            },
        }
    }

    /// The token of a form: in the header, or in the field.
    fn token(&self, parts: &Parts, body: &[u8]) -> Result<String, Problem> {
        let missing = || problem(problem::FORM_TOKEN_MISSING, "it has neither field nor header");
        if let Some(value) = parts.headers.get(&self.header) {
            return value.to_str().map(str::to_owned).map_err(|_| missing());
        }
        if !has_media_type(&parts.headers, "application/x-www-form-urlencoded") {
            return Err(missing());
        }
        form_urlencoded::parse(body)
            .find(|(name, _)| *name == self.field)
            .map(|(_, token)| token.into_owned())
            .ok_or_else(missing)
    }
}

fn problem(kind: ProblemType, detail: &str) -> Problem {
    Problem::new(kind, format!("{detail} (it was not handled)"))
}

impl<S> Layer<S> for FormTokens {
    type Service = FormService<S>;

    fn layer(&self, inner: S) -> FormService<S> {
        FormService { inner, settings: Arc::clone(&self.settings) }
    }
}

/// A service behind [`FormTokens`].
#[derive(Clone)]
pub struct FormService<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S, B, R> Service<Request<B>> for FormService<S>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Answer<R, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // `poll_ready` was called on `self.inner`, so that one is called and its clone takes its
        // place.
        let next = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, next);
        if request.method().is_safe() {
            return Box::pin(pass(inner, request.map(RequestBody::passed)));
        }
        Box::pin(handle(Arc::clone(&self.settings), inner, request))
    }
}

async fn handle<S, B, R>(
    settings: Arc<Settings>,
    inner: S,
    request: Request<B>,
) -> Answer<R, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
{
    let (parts, body) = request.into_parts();
    let call = PendingCall::new(&settings.operation);
    let body = match take_up(&settings, body).await {
        Ok(body) => body,
        Err(problem) => return Ok(settings.refusals.refuse(call, &problem, &parts)),
    };
    call.hand_over();
    // Detachable before the token is consumed: a client that goes away, as a browser does on a
    // second click, must not leave a token that is used and a form that is not handled.
    let (client, handled) = settings.orphans.exchange();
    let answer = detachable(async move {
        let _handled = handled;
        run(settings, inner, parts, body).await
    })
    .await;
    drop(client);
    answer
}

/// Reads the whole body of a form. Refuses it outside of a tokio runtime, and if too many handlers
/// run without their clients.
async fn take_up<B>(settings: &Settings, body: B) -> Result<Whole, Problem>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let body = read(body, settings.max_bytes).await.map_err(|unread| unread.problem("forms"))?;
    if Handle::try_current().is_err() {
        tracing::error!(target: "idempotent", "forms need a tokio runtime around the service");
        return Err(misconfigured());
    }
    if settings.orphans.count() >= settings.max_orphans {
        return Err(overloaded());
    }
    Ok(body)
}

/// Consumes the token of a form.
async fn consume(
    settings: &Settings,
    parts: &Parts,
    body: &[u8],
) -> Result<(UsedToken, Option<String>), Problem> {
    let owner = settings.owner(parts)?;
    let token = settings.token(parts, body)?;
    let tokens = settings.tokens(owner.as_deref());
    let consumed = tokens.consume(&settings.business_type, &token).await;
    match consumed.map_err(|error| refusal(&error))? {
        Consumed::Accepted(used) => Ok((used, owner)),
        Consumed::Used => {
            let detail = "look at what came of it (it was not handled again)";
            Err(Problem::new(problem::FORM_TOKEN_USED, detail))
        }
        Consumed::BoundElsewhere => {
            Err(problem(problem::FORM_TOKEN_FOREIGN, "load the page again and send it from there"))
        }
        // `Unknown`, and any other reason for which a token is not good.
        _ => {
            Err(problem(problem::FORM_TOKEN_UNKNOWN, "load the page again and send it from there"))
        }
    }
}

/// Consumes the token of a form and runs the handler.
async fn run<S, B, R>(
    settings: Arc<Settings>,
    mut inner: S,
    parts: Parts,
    body: Whole,
) -> Answer<R, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>>,
{
    let call = PendingCall::new(&settings.operation);
    let (used, owner) = match consume(&settings, &parts, body.bytes()).await {
        Ok(consumed) => consumed,
        Err(problem) => return Ok(settings.refusals.refuse(call, &problem, &parts)),
    };
    let head = settings.refusals.remember(&parts);
    let request = Request::from_parts(parts, RequestBody::read(body));
    let answer = catch_panic(pin!(async { inner.call(request).await })).await;
    let mut response = match answer {
        Ok(Ok(response))
            if is_deterministic(response.status()) && !is_transient_problem(&response) =>
        {
            response.map(ResponseBody::passed)
        }
        failed => {
            // Before the client is answered: it may send the form again at once.
            if let Err(error) = used.give_back().await {
                tracing::warn!(target: "idempotent", %error, "a form token stays used");
            }
            return match failed {
                Ok(answer) => {
                    call.ends(Ending::Failed);
                    answer.map(|response| response.map(ResponseBody::passed))
                }
                Err(Panicked) => {
                    call.ends(Ending::Panicked);
                    observe::refused(&settings.operation, problem::HANDLER_FAILED);
                    let head = head.as_deref();
                    let failed = settings.refusals.response(&handler_failed(), head, Dialect::Http);
                    Ok(failed.map(ResponseBody::of))
                }
            };
        }
    };
    call.ends(Ending::Executed);
    match settings.tokens(owner.as_deref()).issue(&settings.business_type).await {
        Ok(next) => {
            if let Ok(next) = HeaderValue::from_str(&next.to_string()) {
                response.headers_mut().insert(settings.header.clone(), next);
            }
        }
        // The form was handled; the page can be loaded again.
        Err(error) => {
            tracing::warn!(target: "idempotent", %error, "no next form token was issued");
        }
    }
    Ok(response)
}

impl fmt::Debug for FormTokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FormTokens")
            .field("business_type", &self.settings.business_type)
            .field("bound", &self.settings.owner.is_some())
            .field("expire", &self.settings.expire)
            .finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for FormService<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FormService").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::task::Waker;

    #[derive(Clone)]
    struct Handler;

    impl Service<Request<RequestBody<Full<Bytes>>>> for Handler {
        type Response = Response<Full<Bytes>>;
        type Error = Infallible;
        type Future = Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<RequestBody<Full<Bytes>>>) -> Self::Future {
            ready(Ok(Response::default()))
        }
    }

    #[test]
    fn a_form_outside_of_a_runtime_is_refused() {
        let idem = Idempotency::in_memory().unwrap();
        let mut service = FormTokens::new(&idem, "order").layer(Handler);
        let mut answer = service.call(Request::post("/").body(Full::default()).unwrap());
        let answer = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(response)) = answer else { panic!("{answer:?}") };
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["idempotency-problem"], "misconfigured");
    }
}
