//! A handler in its transaction.

use super::{LostRace, TransactionSlot};
use crate::body::ResponseBody;
use crate::exchange::has_succeeded;
use crate::execution::{Execution, Keyed, Unkeyed, respond};
use crate::keeping::answers;
use crate::problem::{Dialect, handler_failed, kept_transaction, not_committed};
use crate::request_body::RequestBody;
use crate::response::{Answer, Kept, NoAnswer, Ran, refusal};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use idempotent_runtime::problem::Problem;
use idempotent_runtime::protocol::TransactionSource;
use idempotent_runtime::{AnswerPolicy, BodyRun, Error, ErrorKind, Operation, ambient, observe};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;
use tower_service::Service;

/// Runs a handler in a transaction of this source.
#[derive(Clone, Copy, Debug)]
pub(super) struct InTransaction<X>(pub(super) X);

impl<X, S, B, R> Execution<S, B, R> for InTransaction<X>
where
    X: TransactionSource,
    X::Lent: 'static,
    S: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    const IS_TRANSACTED: bool = true;

    fn run(
        self,
        operation: Operation<'_>,
        request: Keyed<S>,
    ) -> impl Future<Output = Ran<R, S::Error>> + Send {
        let Keyed { settings, mut inner, parts, body, place, mut new_key, handled } = request;
        let answers = answers::<R, S::Error>(&settings).undo_if(|exchange| !exchange.succeeded());
        let mut calls = 0_u32;
        operation.run_in_transaction(answers, self.0, reports_lost_race, move |lent: X::Lent| {
            let _handled = &handled;
            // The service that is ready is the one that is called first.
            let next = inner.clone();
            let mut service = std::mem::replace(&mut inner, next);
            let is_ready = calls == 0;
            calls += 1;
            let slot = TransactionSlot::new(lent);
            let mut parts = http::request::Parts::clone(&parts);
            parts.extensions.insert(slot.clone());
            let request = Request::from_parts(parts, RequestBody::read(body.clone()));
            let (settings, new_key) = (Arc::clone(&settings), new_key.take());
            // Boxed, because the future is large and moved several times.
            Box::pin(ambient::scope(place.clone(), async move {
                if let Some(new_key) = new_key {
                    new_key.starts();
                }
                if !is_ready {
                    let ready = poll_fn(|context| service.poll_ready(context));
                    ready.await.map_err(NoAnswer::Failed)?;
                }
                let kept: Kept<R, S::Error> = match service.call(request).await {
                    Err(error) => Err(NoAnswer::Failed(error)),
                    Ok(response) if response.extensions().get::<LostRace>().is_some() => {
                        Err(NoAnswer::Freed(Box::new(response.map(ResponseBody::passed))))
                    }
                    Ok(response) => respond(&settings, response).await,
                };
                // Given back here if the handler has not taken it: copies of the extensions may
                // live on.
                drop(slot.take());
                kept
            }))
        })
    }

    fn pass(self, request: Unkeyed<S, B>) -> impl Future<Output = Answer<R, S::Error>> + Send {
        let Unkeyed { settings, mut inner, request } = request;
        async move {
            let (mut parts, body) = request.into_parts();
            let dialect = Dialect::of(&parts.headers);
            let head = settings.refusals.remember(&parts);
            let answers = AnswerPolicy::<Response<R>, NoAnswer<R, S::Error>>::not_kept()
                .undo_if(|response| !has_succeeded(response, None));
            let operation = settings.instance.operation(settings.operation.clone());
            let handler = |lent: X::Lent| async move {
                let slot = TransactionSlot::new(lent);
                parts.extensions.insert(slot.clone());
                let response = inner.call(Request::from_parts(parts, body)).await;
                drop(slot.take());
                response.map_err(NoAnswer::Failed)
            };
            let ran = operation.run_in_transaction_without_key(answers, self.0, handler).await;
            let problem = match ran {
                Ok(response) => return Ok(response.map(ResponseBody::passed)),
                Err(NoAnswer::Failed(error)) => return Err(error),
                Err(NoAnswer::Freed(response)) => return Ok(*response),
                Err(NoAnswer::BrokeOff) => handler_failed(),
                Err(NoAnswer::Refused(error)) => problem(&error),
            };
            observe::refused(&settings.operation, problem.kind());
            let response = settings.refusals.response(&problem, head.as_deref(), dialect);
            Ok(response.map(ResponseBody::of))
        }
    }

    fn refusal(error: &Error) -> Problem {
        problem(error)
    }
}

/// `true` for a response that asks for another transaction.
fn reports_lost_race<R, E>(no_answer: &NoAnswer<R, E>) -> bool {
    match no_answer {
        NoAnswer::Freed(response) => response.extensions().get::<LostRace>().is_some(),
        _ => false,
    }
}

/// The problem for an error. If the handler ran, its transaction was not committed, or nobody
/// knows.
fn problem(error: &Error) -> Problem {
    let problem = match (error.body(), error.kind()) {
        (BodyRun::Ran, ErrorKind::Misconfigured) => kept_transaction(),
        // A race that was lost each time; another request may win it.
        (BodyRun::Ran, ErrorKind::InProgress) => {
            not_committed().retry_after(Duration::from_secs(1))
        }
        (BodyRun::Ran, ErrorKind::StoreUnavailable | ErrorKind::StoreFull) => not_committed(),
        _ => return refusal(error),
    };
    // The response does not name the reason, so that operators find it only here.
    tracing::error!(target: "idempotent", %error, "nothing of the handler was committed");
    problem
}
