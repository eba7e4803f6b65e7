//! Assertions for the tests of a service: a route is handled once, and needs a key.
//!
//! ```
//! use axum::Router;
//! use axum::body::Body;
//! use axum::routing::post;
//! use http::{Request, StatusCode};
//! use idempotent_http::IdempotencyLayer;
//! use idempotent_http::testing::{assert_handled_once, assert_key_required};
//! use idempotent_runtime::Idempotency;
//!
//! async fn create_order(item: String) -> (StatusCode, String) {
//!     (StatusCode::CREATED, format!("ordered {item}"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layer = IdempotencyLayer::new(&Idempotency::in_memory()?, "shop").require_key();
//! let app: Router = Router::new().route("/orders", post(create_order)).layer(layer);
//!
//! let order = || Request::post("/orders").body(Body::from("lamp")).unwrap();
//! let first = assert_handled_once(app.clone(), order()).await;
//! assert_eq!(first.status(), StatusCode::CREATED);
//! assert_key_required(app, order()).await;
//! # Ok(()) }
//! ```

mod answer;
mod fault;

use crate::body::BoxError;
use crate::header::IDEMPOTENCY_KEY;
use crate::key::Sources;
use crate::settings::is_deterministic;
use answer::{Answer, Kind, compare};
use bytes::Bytes;
use fault::Fault;
use http::header::HeaderValue;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt as _;
use idempotent_runtime::ids;
use idempotent_runtime::problem::ProblemType;
use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::Pin;
use std::task::Poll;
use tower_service::Service;

/// Number of concurrent requests.
const AT_ONCE: usize = 4;

/// Asserts that a request with a key is handled once, however often it is sent, and returns the answer
/// to the first.
///
/// The request is sent several times at once and then once more, all with one key. One of them must be
/// handled. The last one must get the same status, headers and body, marked as a replay; those in
/// between too, or be told that the first is in progress. Headers that belong to one exchange, such as
/// `Date` and `Set-Cookie`, are not compared, nor those that the layer was told not to replay.
///
/// A request with `Idempotency-Key` keeps its key, which must not have been used before. Without one it
/// gets a random key. It must have everything else that the service needs, such as credentials.
///
/// # Panics
/// Panics if the request was handled more than once or not at all, or if the answers differ. The
/// message names the reason, as far as it can be seen from outside: no layer is in the path, the
/// response is not stored, or a layer further out changes it.
///
/// ```
/// use axum::Router;
/// use axum::body::Body;
/// use axum::routing::post;
/// use http::Request;
/// use idempotent_http::IdempotencyLayer;
/// use idempotent_http::testing::assert_handled_once;
/// use idempotent_runtime::Idempotency;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let layer = IdempotencyLayer::new(&Idempotency::in_memory()?, "shop").require_key();
/// let app: Router = Router::new().route("/orders", post(async || "ordered")).layer(layer);
/// let first = assert_handled_once(app, Request::post("/orders").body(Body::from("lamp"))?).await;
/// assert_eq!(first.body(), "ordered");
/// # Ok(()) }
/// ```
#[track_caller]
pub fn assert_handled_once<S, B, R>(
    service: S,
    request: Request<B>,
) -> impl Future<Output = Response<Bytes>>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Debug,
    B: Body<Data = Bytes> + From<Bytes>,
    B::Error: Debug,
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    let caller = Location::caller();
    async move {
        let mut subject = Subject::new(service, request).await;
        let keyless = !subject.parts.headers.contains_key(IDEMPOTENCY_KEY);
        if keyless && let Ok(key) = HeaderValue::try_from(format!("\"{}\"", ids::uuid_v7())) {
            subject.parts.headers.insert(IDEMPOTENCY_KEY, key);
        }
        match handled_once(&subject).await {
            Ok(first) => first.response,
            Err(fault) => panic!("{}\n  asserted at {caller}", fault.told(&subject.parts)),
        }
    }
}

/// Asserts that a request without a key is refused (400 `missing-key`), and not handled.
///
/// The default headers for keys are removed from the request.
///
/// # Panics
/// Panics if the request was handled, or refused for another reason.
///
/// ```
/// use axum::Router;
/// use axum::body::Body;
/// use axum::routing::post;
/// use http::Request;
/// use idempotent_http::IdempotencyLayer;
/// use idempotent_http::testing::assert_key_required;
/// use idempotent_runtime::Idempotency;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let layer = IdempotencyLayer::new(&Idempotency::in_memory()?, "shop").require_key();
/// let app: Router = Router::new().route("/orders", post(async || "ordered")).layer(layer);
/// assert_key_required(app, Request::post("/orders").body(Body::from("lamp"))?).await;
/// # Ok(()) }
/// ```
#[track_caller]
pub fn assert_key_required<S, B, R>(service: S, request: Request<B>) -> impl Future<Output = ()>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Debug,
    B: Body<Data = Bytes> + From<Bytes>,
    B::Error: Debug,
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    let caller = Location::caller();
    async move {
        let mut subject = Subject::new(service, request).await;
        for name in Sources::standard().headers {
            subject.parts.headers.remove(name);
        }
        if let Err(fault) = key_required(&subject).await {
            panic!("{}\n  asserted at {caller}", fault.told(&subject.parts));
        }
    }
}

/// A service, and the request that is sent to it.
struct Subject<S> {
    service: S,
    parts: Parts,
    body: Bytes,
}

impl<S> Subject<S> {
    async fn new<B>(service: S, request: Request<B>) -> Self
    where
        B: Body<Data = Bytes>,
        B::Error: Debug,
    {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.expect("the body of the request can be read").to_bytes();
        Self { service, parts, body }
    }

    /// Sends the request with its headers changed.
    async fn send<B, R>(&self, change: impl FnOnce(&mut Parts)) -> Result<Answer, Fault>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        S::Error: Debug,
        B: From<Bytes>,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        let mut service = self.service.clone();
        let mut parts = self.parts.clone();
        change(&mut parts);
        let failed = |error: S::Error| Fault::Failed(format!("{error:?}"));
        poll_fn(|context| service.poll_ready(context)).await.map_err(failed)?;
        let request = Request::from_parts(parts, B::from(self.body.clone()));
        Answer::read(service.call(request).await.map_err(failed)?).await
    }
}

async fn handled_once<S, B, R>(subject: &Subject<S>) -> Result<Answer, Fault>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Debug,
    B: From<Bytes>,
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    let at_once = (0..AT_ONCE).map(|_| subject.send(|_| {})).collect();
    let (mut handled, mut replays, mut refused) = (Vec::new(), Vec::new(), String::new());
    for answer in all(at_once).await {
        let answer = answer?;
        match answer.kind() {
            Kind::Handled => handled.push(answer),
            Kind::Replay => replays.push(answer),
            // Both follow one that is or was handled, which says more about the reason.
            Kind::Refused(ProblemType::IN_PROGRESS | ProblemType::RESULT_NOT_RETAINED) => {
                refused = answer.text();
            }
            Kind::Refused(_) => return Err(Fault::Refused(answer.text())),
        }
    }
    let mut handled = handled.into_iter();
    let first = match (handled.next(), handled.next()) {
        (Some(first), None) => first,
        (Some(first), Some(_)) => return Err(not_replayed(subject, &first).await),
        (None, _) if !replays.is_empty() => return Err(Fault::UsedBefore),
        (None, _) => return Err(Fault::Refused(refused)),
    };
    let again = subject.send(|_| {}).await?;
    match again.kind() {
        Kind::Replay => replays.push(again),
        Kind::Handled => return Err(not_replayed(subject, &first).await),
        Kind::Refused(ProblemType::RESULT_NOT_RETAINED) => {
            return Err(not_replayed(subject, &first).await);
        }
        Kind::Refused(_) => return Err(Fault::RepeatRefused(again.text())),
    }
    for replay in &replays {
        compare(&first, replay)?;
    }
    Ok(first)
}

/// Finds out why a request that was handled was not replayed.
async fn not_replayed<S, B, R>(subject: &Subject<S>, first: &Answer) -> Fault
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Debug,
    B: From<Bytes>,
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    if first.is_live() {
        return Fault::Live;
    }
    if first.asked_for_no_store() {
        return Fault::NoStore;
    }
    // A layer that reads the key refuses an empty one, even if keys are optional.
    let empty = HeaderValue::from_static("\"\"");
    let probed = subject.send(|parts| drop(parts.headers.insert(IDEMPOTENCY_KEY, empty))).await;
    let is_guarded =
        probed.is_ok_and(|answer| answer.kind() == Kind::Refused(ProblemType::INVALID_KEY));
    let status = first.response.status();
    match is_guarded {
        false => Fault::NotGuarded,
        true if !is_deterministic(status) => Fault::Freed(status),
        true => Fault::NotKept(status),
    }
}

async fn key_required<S, B, R>(subject: &Subject<S>) -> Result<(), Fault>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Debug,
    B: From<Bytes>,
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    let answer = subject.send(|_| {}).await?;
    match answer.kind() {
        Kind::Refused(ProblemType::MISSING_KEY) => Ok(()),
        Kind::Refused(_) => Err(Fault::Refused(answer.text())),
        Kind::Handled | Kind::Replay => Err(Fault::KeyNotRequired(answer.response.status())),
    }
}

/// Polls all futures until all are ready.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut pending: Vec<Option<Pin<Box<F>>>> =
        futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    let mut outputs = Vec::new();
    poll_fn(|context| {
        for slot in &mut pending {
            if let Some(future) = slot
                && let Poll::Ready(output) = future.as_mut().poll(context)
            {
                outputs.push(output);
                *slot = None;
            }
        }
        if pending.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs
}
