//! Answers of a service, and their comparison.

use super::fault::Fault;
use crate::body::BoxError;
use crate::header::{IDEMPOTENCY_PROBLEM, IDEMPOTENT_REPLAYED, IDEMPOTENT_STORED};
use crate::headers::{has_media_type, replayed};
use crate::keeping::ChosenHeaders;
use crate::problem;
use crate::service::{NoStore, Streaming};
use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Body;
use http_body_util::BodyExt as _;
use idempotent_runtime::problem::ProblemType;
use std::collections::BTreeSet;

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response<Bytes>,
}

/// The origin of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An answer of the handler.
    Handled,
    /// A stored answer of the handler.
    Replay,
    /// A refusal by a layer.
    Refused(ProblemType),
}

impl Answer {
    /// Reads an answer whole, unless it is a stream, which may have no end.
    pub(super) async fn read<R>(response: Response<R>) -> Result<Self, Fault>
    where
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        let (parts, body) = response.into_parts();
        let is_stream = parts.headers.contains_key(IDEMPOTENT_STORED)
            || parts.extensions.get::<Streaming>().is_some()
            || has_media_type(&parts.headers, "text/event-stream");
        let body = match is_stream {
            true => Bytes::new(),
            false => match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(error) => return Err(Fault::Failed(error.into().to_string())),
            },
        };
        Ok(Self { response: Response::from_parts(parts, body) })
    }

    pub(super) fn kind(&self) -> Kind {
        let headers = self.response.headers();
        let code = headers.get(IDEMPOTENCY_PROBLEM).and_then(|code| code.to_str().ok());
        match code.and_then(problem::from_code) {
            // Also where the handler handed on what a function further in was refused with.
            Some(problem) => Kind::Refused(problem),
            None if headers.contains_key(IDEMPOTENT_REPLAYED) => Kind::Replay,
            None => Kind::Handled,
        }
    }

    /// Returns `true` if the layer streamed the body and kept nothing of it.
    pub(super) fn is_live(&self) -> bool {
        self.response.headers().contains_key(IDEMPOTENT_STORED)
    }

    pub(super) fn asked_for_no_store(&self) -> bool {
        self.response.extensions().get::<NoStore>().is_some()
    }

    /// Status and beginning of the body, for messages.
    pub(super) fn text(&self) -> String {
        format!("{} {}", self.response.status().as_u16(), shown(self.response.body()))
    }
}

/// Compares a replay with the answer that it repeats.
pub(super) fn compare(first: &Answer, replay: &Answer) -> Result<(), Fault> {
    let (first, replay) = (&first.response, &replay.response);
    let differs = |what: &str, first: String, replay: String| {
        Err(Fault::Differs { what: what.to_owned(), first, replay })
    };
    if first.status() != replay.status() {
        return differs("status", first.status().to_string(), replay.status().to_string());
    }
    let chosen = first.extensions().get::<ChosenHeaders>().map(|ChosenHeaders(choices)| &**choices);
    let names = |headers| replayed(headers, chosen).map(|(name, _)| name.clone());
    let names: BTreeSet<_> =
        names(first.headers()).chain(names(replay.headers())).map(|it| it.to_string()).collect();
    for name in names.iter().filter(|name| *name != IDEMPOTENT_REPLAYED.as_str()) {
        let (before, after) = (lines(first.headers(), name), lines(replay.headers(), name));
        if before != after {
            return differs(&format!("header `{name}`"), before.join(", "), after.join(", "));
        }
    }
    if first.body() != replay.body() {
        return differs("body", shown(first.body()), shown(replay.body()));
    }
    Ok(())
}

fn lines(headers: &HeaderMap, name: &str) -> Vec<String> {
    let lines = headers.get_all(name).iter();
    lines.map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned()).collect()
}

/// The beginning of a body.
fn shown(body: &Bytes) -> String {
    const MOST: usize = 300;
    let text = String::from_utf8_lossy(&body[..body.len().min(MOST)]);
    match body.len() {
        0..=MOST => text.into_owned(),
        length => format!("{text}.. ({length} bytes)"),
    }
}
