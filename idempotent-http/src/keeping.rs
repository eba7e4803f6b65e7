//! Retention and headers of a stored response.
//!
//! The instance stores a response and does not know the layer. The layer's settings travel with the
//! response until then, as an extension.

use crate::exchange::Exchange;
use crate::headers::HeaderChoices;
use crate::response::NoAnswer;
use crate::settings::{RETENTION, Settings, call_hook};
use http::Response;
use idempotent_runtime::AnswerPolicy;
use std::sync::Arc;
use std::time::Duration;

/// Retention and headers of one response, as an extension of it. Left out if the settings name
/// none.
#[derive(Clone)]
pub(crate) struct Keeping {
    headers: Option<Arc<HeaderChoices>>,
    retention: Duration,
}

/// Decision whether a response is kept at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    Kept,
    NotKept,
}

/// Decides whether a response is kept, and adds the extension if the settings call for it.
pub(crate) fn note<R>(settings: &Settings, response: &mut Response<R>) -> Terms {
    let chosen = settings.retention_by.as_ref().and_then(|retention_by| {
        call_hook("retention_by", || retention_by(response.status(), response.headers()))?
    });
    if chosen == Some(Duration::ZERO) {
        return Terms::NotKept;
    }
    if settings.retention_by.is_some() || settings.header_choices.is_some() {
        put(settings, response, chosen);
    }
    Terms::Kept
}

/// Adds the layer's choices about headers to a response from an operator.
pub(crate) fn note_headers<R>(settings: &Settings, response: &mut Response<R>) {
    if settings.header_choices.is_some() {
        put(settings, response, None);
    }
}

fn put<R>(settings: &Settings, response: &mut Response<R>, chosen: Option<Duration>) {
    let usual = || settings.retention.unwrap_or_else(|| settings.instance.config().expire);
    let retention = chosen.unwrap_or_else(usual);
    let headers = settings.header_choices.clone();
    response.extensions_mut().insert(Keeping { headers, retention });
}

/// The layer's choices about headers, left on responses for the assertions in `testing`.
#[cfg(feature = "testing")]
#[derive(Clone)]
pub(crate) struct ChosenHeaders(pub(crate) Arc<HeaderChoices>);

/// Removes the extension from a response that goes to its client.
pub(crate) fn take_off<R>(response: &mut Response<R>) {
    let keeping = response.extensions_mut().remove::<Keeping>();
    #[cfg(feature = "testing")]
    if let Some(headers) = keeping.and_then(|keeping| keeping.headers) {
        response.extensions_mut().insert(ChosenHeaders(headers));
    }
    #[cfg(not(feature = "testing"))]
    drop(keeping);
}

/// The layer's choices about the headers of a response.
pub(crate) fn choices<R>(response: &Response<R>) -> Option<&HeaderChoices> {
    response.extensions().get::<Keeping>()?.headers.as_deref()
}

/// The instructions to the instance for keeping responses.
pub(crate) fn answers<R, E>(settings: &Settings) -> AnswerPolicy<Box<Exchange<R>>, NoAnswer<R, E>> {
    let answers = AnswerPolicy::bytes();
    match settings.retention_by {
        Some(_) => answers.expire_with(|exchange| retention(exchange)),
        None => answers,
    }
}

fn retention<R>(exchange: &Exchange<R>) -> Duration {
    let extensions = match exchange {
        Exchange::Whole { response, .. } => response.extensions(),
        Exchange::Live(response) => response.extensions(),
        // Only read from a store.
        Exchange::Flowed(_) => return RETENTION,
    };
    extensions.get::<Keeping>().map_or(RETENTION, |keeping| keeping.retention)
}
