//! Service that reports the state of a key, without running a handler.

use crate::header::{IDEMPOTENT_REPLAYED, IDEMPOTENT_STATUS};
use crate::identity::{Identity, known, path};
use crate::layer::IdempotencyLayer;
use crate::problem::{self, Dialect};
use crate::record::{StoredExchange, read};
use crate::response::{not_retained, refusal};
use crate::settings::{Presence, Settings};
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{Empty, Full};
use idempotent_runtime::problem::{Problem, ProblemType};
use idempotent_runtime::store::State;
use std::borrow::Cow;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_service::Service;

/// Smallest `Retry-After`, and the default.
const SECOND: Duration = Duration::from_secs(1);

impl IdempotencyLayer {
    /// Creates a service that reports the state of a key. Mount it on any path, inside the same
    /// authentication as the routes that it reports about.
    ///
    /// ```
    /// use axum::Router;
    /// use axum::routing::post;
    /// use http::Method;
    /// use idempotent_http::IdempotencyLayer;
    /// # use idempotent_runtime::Idempotency;
    /// # async fn create_order() {}
    /// # let idem = Idempotency::in_memory().unwrap();
    ///
    /// let layer = IdempotencyLayer::new(&idem, "shop");
    /// let status = layer.status().for_route(Method::POST, "/orders");
    /// let app: Router = Router::new()
    ///     .route("/orders", post(create_order).layer(layer))
    ///     .route_service("/orders/status", status);
    /// # drop(app);
    /// ```
    pub fn status(&self) -> StatusService {
        StatusService { settings: self.settings(), route: None }
    }
}

/// Service that reports the state of a key to `GET`. See [`IdempotencyLayer::status`].
///
/// The key is read from where the layer reads it, and the scope is resolved as the layer resolves it:
/// the key of another principal is unknown. The payload is not compared, so that without a scope
/// any client that knows a key can read its answer.
///
/// | the key | the answer |
/// | --- | --- |
/// | is in progress | 202 with `Retry-After` |
/// | has an answer | 200 with its headers and body, and its own status in `Idempotent-Status` |
/// | has an answer that was not kept | 409 `result-not-retained` |
/// | waits for a decision | 409 `outcome-unknown` |
/// | is not known, is free after a failure, or belongs to another principal | 404 `unknown-key` |
///
/// No answer may be cached. The route is that of [`for_route`](Self::for_route), or what the request
/// names in the parameters `path` and `method` of its query; `path` is its own path if it names none,
/// and `method` is `POST`.
///
/// ```
/// use axum::Router;
/// use axum::routing::post;
/// use http::Method;
/// use idempotent_http::{IdempotencyLayer, StatusService};
/// use idempotent_runtime::Idempotency;
///
/// fn service(idem: &Idempotency) -> Router {
///     let layer = IdempotencyLayer::new(idem, "shop");
///     let status: StatusService = layer.status().for_route(Method::POST, "/orders");
///     Router::new()
///         .route("/orders", post(async || "ordered").layer(layer))
///         .route_service("/orders/status", status)
/// }
/// # drop(service(&Idempotency::in_memory().unwrap()));
/// ```
#[derive(Clone, Debug)]
pub struct StatusService {
    settings: Arc<Settings>,
    route: Option<Route<'static>>,
}

/// The route of the keys in question.
#[derive(Clone, Debug)]
struct Route<'a> {
    method: Method,
    path: Cow<'a, str>,
}

impl StatusService {
    /// Restricts the service to this route, whatever the query says. The path is the one that
    /// clients send, including the prefix of nested routers.
    #[must_use]
    pub fn for_route(mut self, method: Method, path: impl Into<String>) -> Self {
        self.route = Some(Route { method, path: Cow::Owned(path.into()) });
        self
    }
}

impl<B> Service<Request<B>> for StatusService {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (parts, _) = request.into_parts();
        let Self { settings, route } = self.clone();
        Box::pin(async move {
            if !matches!(parts.method, Method::GET | Method::HEAD) {
                return Ok(not_allowed());
            }
            let response = match answer(&settings, route, &parts).await {
                Ok(response) => response,
                Err(problem) => settings.refusals.response(&problem, Some(&parts), Dialect::Http),
            };
            Ok(response.map(Full::new))
        })
    }
}

async fn answer(
    settings: &Settings,
    route: Option<Route<'static>>,
    parts: &Parts,
) -> Result<Response<Bytes>, Problem> {
    // Keys that the layer reads from bodies are given in the header or the query here.
    let known = known(settings, Presence::Required, parts, Empty::new()).await?;
    let (Some(key), scope) = (known.key, known.scope) else { return Err(unknown()) };
    let Some(Route { method, path }) = route.or_else(|| asked(parts)) else {
        return Err(unknown());
    };
    let (key, scope) = (&*key, scope.as_deref());
    let identity =
        Identity { method: &method, path: &path, ..Identity::of(settings, parts, key, scope) };
    let operation = identity.operation(settings);
    let found = match operation.get().await {
        Ok(Some(record)) => read(&operation, &record),
        Ok(None) => return Err(unknown()),
        Err(error) => Err(error),
    };
    stands(settings, found.map_err(|error| refusal(&error))?)
}

/// The route that a request asks about; `None` if it names no method.
fn asked(parts: &Parts) -> Option<Route<'_>> {
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let named = |wanted: &str| {
        form_urlencoded::parse(query).find(|(name, _)| name == wanted).map(|(_, value)| value)
    };
    let method = match named("method") {
        Some(method) => Method::from_bytes(method.as_bytes()).ok()?,
        None => Method::POST,
    };
    Some(Route { method, path: named("path").unwrap_or(Cow::Borrowed(path(parts))) })
}

/// The answer about a key.
fn stands(settings: &Settings, found: StoredExchange) -> Result<Response<Bytes>, Problem> {
    if found.is_in_progress() {
        let after = settings.retry_after.unwrap_or(SECOND).min(found.lease_left);
        return Ok(in_progress(after));
    }
    if found.is_blocked() {
        return Err(problem(ProblemType::OUTCOME_UNKNOWN));
    }
    match (found.state, found.response) {
        (State::Succeeded, Some(response)) => Ok(done(response)),
        (State::Succeeded, None) => Err(found
            .status
            .map_or_else(|| problem(ProblemType::RESULT_NOT_RETAINED), not_retained)),
        (State::FailedFinal | State::Taken, _) => Err(problem(ProblemType::RESULT_UNREADABLE)),
        // Free: the next request with the key is handled.
        (State::Processing | State::Abandoned | State::FailedFree, _) => Err(unknown()),
    }
}

fn in_progress(after: Duration) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(br#"{"state":"in-progress"}"#));
    *response.status_mut() = StatusCode::ACCEPTED;
    let seconds = after.max(SECOND).as_millis().div_ceil(1000) as u64;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(RETRY_AFTER, seconds.into());
    response
}

/// The stored answer. Its status is in a header, so that a stored 404 does not look like an unknown
/// key and clients do not follow a stored redirect.
fn done(mut response: Response<Bytes>) -> Response<Bytes> {
    let status = std::mem::replace(response.status_mut(), StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(IDEMPOTENT_STATUS, status.as_u16().into());
    headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn not_allowed() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    let headers = response.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn unknown() -> Problem {
    problem(problem::UNKNOWN_KEY)
}

fn problem(kind: ProblemType) -> Problem {
    let of_request = match kind {
        problem::UNKNOWN_KEY => "it may be sent, or sent again, under this key",
        ProblemType::OUTCOME_UNKNOWN => "it is unknown whether it was handled",
        _ => "it was handled before",
    };
    Problem::new(kind, format!("{} ({of_request})", kind.title()))
}
