//! The response of a handler: stored, streamed, or not kept at all.

use crate::body::{ResponseBody, Whole};
use crate::exchange::{Exchange, Replay, not_stored};
use crate::gather::{Gathered, Length, content_length};
use crate::grpc;
use crate::header::IDEMPOTENCY_PROBLEM;
use crate::headers::{self, Grpc};
use crate::keeping::{self, Terms};
use crate::panics::Panicked;
use crate::problem::{self, handler_failed};
use crate::service::{NoStore, Streaming};
use crate::settings::Settings;
use http::header::CONTENT_LENGTH;
use http::{Response, StatusCode, response};
use http_body::Body;
use idempotent_runtime::observe;
use idempotent_runtime::problem::{Problem, ProblemType};
use idempotent_runtime::{Error, Outcome, Recorded};

/// The answer to a client.
pub(crate) type Answer<B, E> = Result<Response<ResponseBody<B>>, E>;

/// Outcomes of a handler without an answer to keep.
pub(crate) enum NoAnswer<R, E> {
    Refused(Error),
    /// The response goes to its client, and the key is freed.
    Freed(Box<Response<ResponseBody<R>>>),
    /// The body of the response broke off, and the key is freed, because half a response is no
    /// answer.
    BrokeOff,
    /// The inner service failed.
    Failed(E),
}

impl<R, E> From<Error> for NoAnswer<R, E> {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// The result of a handler, as the instance gets it.
///
/// Boxed, because it is handed on several times.
pub(crate) type Kept<R, E> = Result<Box<Exchange<R>>, NoAnswer<R, E>>;

/// The result of the instance.
pub(crate) type Ran<R, E> = Result<Outcome<Box<Exchange<R>>>, NoAnswer<R, E>>;

pub(crate) fn answer<R, E>(
    ran: Result<Ran<R, E>, Panicked>,
    refusal: impl FnOnce(&Error) -> Problem,
    refuse: impl FnOnce(&Problem) -> Response<ResponseBody<R>>,
) -> Answer<R, E> {
    match ran {
        Err(Panicked) | Ok(Err(NoAnswer::BrokeOff)) => Ok(refuse(&handler_failed())),
        Ok(Ok(outcome)) if outcome.replayed => Ok(match outcome.value.into_replay() {
            Replay::Response(response) => response,
            Replay::NotRetained(status) => refuse(&not_retained(status)),
        }),
        Ok(Ok(outcome)) if outcome.recorded == Recorded::Yes => Ok(outcome.value.into_first()),
        // It ran without protection, or the store has not acknowledged it.
        Ok(Ok(outcome)) => Ok(not_stored(outcome.value.into_first())),
        Ok(Err(NoAnswer::Freed(response))) => Ok(*response),
        Ok(Err(NoAnswer::Failed(error))) => Err(error),
        Ok(Err(NoAnswer::Refused(error))) => Ok(refuse(&refusal(&error))),
    }
}

/// The problem for an error.
pub(crate) fn refusal(error: &Error) -> Problem {
    let problem = Problem::from(error);
    if problem.kind().status() == 500 {
        // The response does not name the reason, so that operators find it only here.
        tracing::error!(target: "idempotent", %error, "refused");
    }
    problem
}

/// The problem of a request that was handled with this status and whose response was not kept.
pub(crate) fn not_retained(status: StatusCode) -> Problem {
    let status = status.as_u16();
    let detail = format!(
        "handled before with status {status}, but the result was not retained (it was not \
         handled again)"
    );
    Problem::new(ProblemType::RESULT_NOT_RETAINED, detail).original_status(status)
}

/// Classification of a response by its head.
pub(crate) enum Sorted<R> {
    /// Stored, if its body can be kept.
    Kept(response::Parts, R, Length),
    Live(Response<ResponseBody<R>>),
    Freed(Response<ResponseBody<R>>),
}

pub(crate) fn sort<R: Body>(
    settings: &Settings,
    mut response: Response<R>,
    limit: usize,
) -> Sorted<R> {
    let status = response.status();
    let outcome = match headers::grpc(response.headers()) {
        // Otherwise it is in the trailers, and not known yet.
        Some(Grpc::Native) if status == StatusCode::OK => grpc::outcome(response.headers()),
        // Otherwise it is in the body, which is not parsed.
        Some(Grpc::Web) if status == StatusCode::OK => {
            grpc::outcome(response.headers()).or(Some(status))
        }
        _ => Some(status),
    };
    let is_stored = outcome.is_none_or(|outcome| settings.stores(outcome))
        && response.extensions().get::<NoStore>().is_none()
        && !is_transient_problem(&response);
    if !is_stored {
        return Sorted::Freed(response.map(ResponseBody::passed));
    }
    if keeping::note(settings, &mut response) == Terms::NotKept {
        return Sorted::Freed(response.map(ResponseBody::passed));
    }
    let length = Length::announced(response.headers(), &response.body().size_hint(), limit);
    if is_stream(&response, length) {
        return Sorted::Live(response.map(ResponseBody::passed));
    }
    if length == Length::TooLarge {
        report_too_large(settings);
        return Sorted::Live(response.map(ResponseBody::passed));
    }
    let (parts, body) = response.into_parts();
    Sorted::Kept(parts, body, length)
}

/// Keeps a response whose body was read, if it takes no more than `most` bytes.
pub(crate) fn keep<R: Body, E>(
    settings: &Settings,
    mut parts: response::Parts,
    gathered: Result<Gathered<R>, R::Error>,
    most: usize,
) -> Kept<R, E> {
    let whole = match gathered {
        Ok(Gathered::Whole(whole)) => whole,
        Ok(Gathered::Paused(body)) => {
            return Ok(Box::new(Exchange::Live(Response::from_parts(parts, body))));
        }
        Ok(Gathered::TooLarge(body)) => {
            report_too_large(settings);
            return Ok(Box::new(Exchange::Live(Response::from_parts(parts, body))));
        }
        Err(_) => return Err(NoAnswer::BrokeOff),
    };
    if !is_as_announced(&parts, &whole) {
        let layer: &str = &settings.operation;
        tracing::warn!(
            target: "idempotent", layer,
            "a response is not as long as its Content-Length says, which is left out"
        );
        parts.headers.remove(CONTENT_LENGTH);
    }
    if headers::grpc(&parts.headers) == Some(Grpc::Native) {
        let outcome = whole.trailers().or(Some(&parts.headers)).and_then(grpc::outcome);
        // A call without an outcome broke off.
        if !outcome.is_some_and(|outcome| settings.stores(outcome)) {
            let mut response = Response::from_parts(parts, ResponseBody::whole(whole));
            keeping::take_off(&mut response);
            return Err(NoAnswer::Freed(Box::new(response)));
        }
    }
    let (data, trailers) = whole.into_parts();
    let exchange = Exchange::Whole { response: Response::from_parts(parts, data), trailers };
    if exchange.fits(most) {
        return Ok(Box::new(exchange));
    }
    report_too_large(settings);
    Ok(Box::new(exchange.into_live()))
}

/// Returns `false` if the length of a body differs from its `Content-Length`. The client would wait
/// for the rest, or take the excess for the beginning of the next response. The body ended without
/// an error, so the header is wrong, which is no reason to run the handler again.
fn is_as_announced(parts: &response::Parts, body: &Whole) -> bool {
    // These have no body; their head may announce the length of the one they stand for.
    matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        || content_length(&parts.headers).is_none_or(|length| length == body.bytes().len() as u64)
}

/// Reports a response that is too large to be kept. Streams are not reported.
fn report_too_large(settings: &Settings) {
    let reason = "the response is larger than what is stored";
    observe::not_kept(&settings.operation, "http::Response", reason);
}

/// Returns `true` if a function further in was refused for a transient reason, whatever the status.
pub(crate) fn is_transient_problem<R>(response: &Response<R>) -> bool {
    let code = response.headers().get(IDEMPOTENCY_PROBLEM).and_then(|code| code.to_str().ok());
    code.and_then(problem::from_code).is_some_and(ProblemType::is_transient)
}

/// Returns `true` for a response that is to be streamed from its head on.
fn is_stream<R>(response: &Response<R>, length: Length) -> bool {
    let is_said_to_flow = || {
        headers::is_stream(response.headers())
            || headers::grpc(response.headers()) == Some(Grpc::Web)
    };
    // The data after a protocol switch is not part of the response.
    response.status().is_informational()
        || response.extensions().get::<Streaming>().is_some()
        // A response of known length ends, whatever its type.
        || (length == Length::Unknown && is_said_to_flow())
}
