//! The ways in which a layer runs its handlers: in place, or in a transaction.

use crate::body::{ResponseBody, Whole};
use crate::exchange::Exchange;
use crate::gather::{Bounds, gather};
use crate::keeping::answers;
use crate::orphans::HandlerEnd;
use crate::quota::NewKey;
use crate::request_body::RequestBody;
use crate::response::{Answer, Kept, NoAnswer, Ran, Sorted, keep, refusal, sort};
use crate::settings::Settings;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::problem::Problem;
use idempotent_runtime::{Error, Operation};
use std::future::Future;
use std::sync::Arc;
use tower_service::Service;

/// A way to run handlers.
pub(crate) trait Execution<S, B, R>: Send
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>>,
{
    /// `true` if a handler gets a transaction.
    const IS_TRANSACTED: bool;

    /// Runs the handler of a request with a key, once.
    fn run(
        self,
        operation: Operation<'_>,
        request: Keyed<S>,
    ) -> impl Future<Output = Ran<R, S::Error>> + Send;

    /// Runs the handler of a request without a key.
    fn pass(self, request: Unkeyed<S, B>) -> impl Future<Output = Answer<R, S::Error>> + Send;

    /// The problem for an error of the operation.
    fn refusal(error: &Error) -> Problem;
}

/// A request with a key, whose body was read, and the service that handles it.
pub(crate) struct Keyed<S> {
    pub(crate) settings: Arc<Settings>,
    pub(crate) inner: S,
    pub(crate) parts: Box<Parts>,
    pub(crate) body: Whole,
    pub(crate) place: Ambient,
    pub(crate) new_key: Option<NewKey>,
    pub(crate) handled: HandlerEnd,
}

/// A request without a key, and the service that handles it.
pub(crate) struct Unkeyed<S, B> {
    pub(crate) settings: Arc<Settings>,
    pub(crate) inner: S,
    pub(crate) request: Request<RequestBody<B>>,
}

/// Runs a handler on the task of its connection, and to its end if the client goes away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InPlace;

impl<S, B, R> Execution<S, B, R> for InPlace
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    const IS_TRANSACTED: bool = false;

    fn run(
        self,
        operation: Operation<'_>,
        request: Keyed<S>,
    ) -> impl Future<Output = Ran<R, S::Error>> + Send {
        let Keyed { settings, mut inner, parts, body, place, new_key, handled } = request;
        let answers = answers::<R, S::Error>(&settings);
        // Boxed, because the future is large and moved several times.
        let handler = Box::pin(ambient::scope(place, async move {
            let _handled = handled;
            if let Some(new_key) = new_key {
                new_key.starts();
            }
            // Put together here: the future keeps room for what it is made of to its end.
            let request = Request::from_parts(*parts, RequestBody::read(body));
            let response = inner.call(request).await.map_err(NoAnswer::Failed)?;
            respond(&settings, response).await
        }));
        operation.run_in_place(answers, handler)
    }

    fn pass(self, request: Unkeyed<S, B>) -> impl Future<Output = Answer<R, S::Error>> + Send {
        pass(request.inner, request.request)
    }

    fn refusal(error: &Error) -> Problem {
        refusal(error)
    }
}

/// Passes a request on that the layer does not guard.
pub(crate) async fn pass<S, B, R>(
    mut inner: S,
    request: Request<RequestBody<B>>,
) -> Answer<R, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>>,
{
    Ok(inner.call(request).await?.map(ResponseBody::passed))
}

/// Sorts the response of a handler, and reads it if it is to be kept.
pub(crate) async fn respond<R, E>(settings: &Settings, response: Response<R>) -> Kept<R, E>
where
    R: Body<Data = Bytes>,
{
    // Larger responses would not be kept, so they are not read whole.
    let most = settings.instance.read_config(|config| config.max_value_bytes);
    let limit = settings.max_response_bytes.min(most);
    let (parts, body, length) = match sort(settings, response, limit) {
        Sorted::Kept(parts, body, length) => (parts, body, length),
        Sorted::Live(response) => return Ok(Box::new(Exchange::Live(response))),
        Sorted::Freed(response) => return Err(NoAnswer::Freed(Box::new(response))),
    };
    let clock = &settings.instance;
    let bounds = Bounds { bytes: limit, pause: settings.stream_after, clock };
    keep(settings, parts, gather(body, length, bounds).await, most)
}
