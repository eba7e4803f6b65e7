//! The response of a handler: stored, sent on as it comes, or not kept at all.

use crate::body::{Gathered, ResponseBody};
use crate::exchange::{Exchange, Unstored};
use crate::headers::has_media_type;
use crate::panics::Panicked;
use crate::problem::{CODE, internal_error};
use crate::service::{NoStore, Streaming};
use crate::settings::Settings;
use http::{Response, response};
use http_body::Body;
use idempotent_runtime::problem::{Problem, ProblemType};
use idempotent_runtime::{Error, Outcome};

/// What a client gets.
pub(crate) type Answer<B, E> = Result<Response<ResponseBody<B>>, E>;

/// Why there is no answer to keep.
pub(crate) enum NoAnswer<R, E> {
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
pub(crate) type Kept<R, E> = Result<Box<Exchange<R>>, NoAnswer<R, E>>;

/// What the instance makes of it.
pub(crate) type Ran<R, E> = Result<Outcome<Box<Exchange<R>>>, NoAnswer<R, E>>;

pub(crate) fn answer<R, E>(
    ran: Result<Ran<R, E>, Panicked>,
    refuse: impl FnOnce(&Problem) -> Response<ResponseBody<R>>,
) -> Answer<R, E> {
    match ran {
        Err(Panicked) => Ok(internal_error()),
        Ok(Ok(outcome)) if outcome.replayed => Ok(outcome.value.into_replay()),
        Ok(Ok(outcome)) => Ok(outcome.value.into_first()),
        Ok(Err(NoAnswer::Freed(response))) => Ok(*response),
        Ok(Err(NoAnswer::Failed(error))) => Err(error),
        Ok(Err(NoAnswer::Refused(error))) => Ok(refuse(&refusal(&error))),
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

/// Whether a response is stored, flows, or frees its key.
pub(crate) enum Sorted<R> {
    /// If it is not too large.
    Kept(response::Parts, R),
    Live(Response<ResponseBody<R>>, Unstored),
    Freed(Response<ResponseBody<R>>),
}

pub(crate) fn sort<R: Body>(settings: &Settings, response: Response<R>, limit: usize) -> Sorted<R> {
    let is_stored = settings.stores(response.status())
        && response.extensions().get::<NoStore>().is_none()
        && !is_transient_problem(&response);
    if !is_stored {
        return Sorted::Freed(response.map(ResponseBody::passed));
    }
    if let Some(why) = flows(&response, limit) {
        return Sorted::Live(response.map(ResponseBody::passed), why);
    }
    let (parts, body) = response.into_parts();
    Sorted::Kept(parts, body)
}

/// What is kept of a response whose body was read.
pub(crate) fn keep<R: Body, E>(
    parts: response::Parts,
    gathered: Result<Gathered<R>, R::Error>,
    most: usize,
) -> Kept<R, E> {
    match gathered {
        Ok(Gathered::Whole(body, trailers)) => {
            let whole = Exchange::Whole { response: Response::from_parts(parts, body), trailers };
            Ok(Box::new(if whole.fits(most) { whole } else { whole.into_live() }))
        }
        Ok(Gathered::Live(body)) => {
            let response = Response::from_parts(parts, body);
            Ok(Box::new(Exchange::Live(response, Unstored::TooLarge)))
        }
        // The handler's body broke off: what the client would get is not an answer.
        Err(_) => Err(NoAnswer::Freed(Box::new(internal_error()))),
    }
}

/// Whether a function further in was refused for a reason that passes, whatever the status says.
pub(crate) fn is_transient_problem<R>(response: &Response<R>) -> bool {
    let code = response.headers().get(CODE).and_then(|code| code.to_str().ok());
    code.and_then(ProblemType::from_code).is_some_and(ProblemType::is_transient)
}

/// The reason for which a response is not read, if there is one.
fn flows<R: Body>(response: &Response<R>, limit: usize) -> Option<Unstored> {
    // What follows a change of protocols is not in the response.
    let is_stream = response.status().is_informational()
        || has_media_type(response.headers(), "text/event-stream")
        || response.extensions().get::<Streaming>().is_some();
    if is_stream {
        return Some(Unstored::Stream);
    }
    let is_too_large = response.body().size_hint().lower() > limit as u64;
    is_too_large.then_some(Unstored::TooLarge)
}
