//! The error of a request that got no answer.

use http::{HeaderValue, StatusCode};
use std::error::Error as StdError;
use std::fmt;

/// Error of [`Retry::send`](super::Retry::send). It tells whether the request may have been handled.
#[derive(Debug)]
pub struct SendError {
    kind: SendErrorKind,
    key: Option<HeaderValue>,
    attempts: u32,
    may_have_run: bool,
    oversized: Option<Oversized>,
    source: Option<reqwest::Error>,
}

/// An answer that was not read.
#[derive(Clone, Copy, Debug, Default)]
struct Oversized {
    status: StatusCode,
    limit: usize,
}

/// Kinds of a [`SendError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendErrorKind {
    /// The key is empty, longer than 255 characters, or not printable ASCII.
    InvalidKey,
    /// The request could not be built, or the client refuses to send it.
    InvalidRequest,
    /// The body is a stream, which cannot be sent twice.
    NotRepeatable,
    /// No attempt got a whole answer.
    NoAnswer,
    /// The answer is larger than [`max_response_bytes`](super::Retry::max_response_bytes).
    ResponseTooLarge,
}

impl SendError {
    pub(super) fn not_sent(kind: SendErrorKind) -> Self {
        Self { kind, key: None, attempts: 0, may_have_run: false, oversized: None, source: None }
    }

    pub(super) fn no_answer(
        source: reqwest::Error,
        key: Option<HeaderValue>,
        attempts: u32,
        may_have_run: bool,
    ) -> Self {
        let source = Some(source.without_url());
        let kind = SendErrorKind::NoAnswer;
        Self { kind, key, attempts, may_have_run, oversized: None, source }
    }

    pub(super) fn too_large(
        status: StatusCode,
        limit: usize,
        key: Option<HeaderValue>,
        attempts: u32,
    ) -> Self {
        let kind = SendErrorKind::ResponseTooLarge;
        let oversized = Some(Oversized { status, limit });
        Self { kind, key, attempts, may_have_run: true, oversized, source: None }
    }

    pub(super) fn with_source(mut self, source: reqwest::Error) -> Self {
        self.source = Some(source.without_url());
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> SendErrorKind {
        self.kind
    }

    /// The value of the key's header, with which the request can be sent again later.
    pub fn key(&self) -> Option<&HeaderValue> {
        self.key.as_ref()
    }

    /// The number of attempts.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The status of an answer that is too large.
    pub fn status(&self) -> Option<StatusCode> {
        self.oversized.map(|it| it.status)
    }

    /// Returns `true` if the server may have handled the request. If not, none of its attempts got
    /// as far as a connection.
    ///
    /// A client that follows redirects does not tell which connection could not be made. With
    /// servers that redirect to others, this is reliable only if the client does not follow
    /// redirects.
    pub fn may_have_run(&self) -> bool {
        self.may_have_run
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.kind {
            SendErrorKind::InvalidKey => "the key is not 1 to 255 characters of printable ASCII",
            SendErrorKind::InvalidRequest => "the request could not be built",
            SendErrorKind::NotRepeatable => "the body is a stream, which cannot be sent twice",
            SendErrorKind::ResponseTooLarge => {
                let Oversized { status, limit } = self.oversized.unwrap_or_default();
                return write!(
                    formatter,
                    "the answer, with status {}, is larger than {limit} bytes; the request may have \
                     been handled\nhelp: send it again with the same key and a larger \
                     `max_response_bytes`",
                    status.as_u16()
                );
            }
            SendErrorKind::NoAnswer => {
                let (times, outcome) = match (self.attempts, self.may_have_run) {
                    (1, false) => ("attempt", "it was not handled"),
                    (_, false) => ("attempts", "it was not handled"),
                    (1, true) => ("attempt", "it may have been handled"),
                    (_, true) => ("attempts", "it may have been handled"),
                };
                return write!(
                    formatter,
                    "no answer after {} {times}; {outcome}: send it again with the same key",
                    self.attempts
                );
            }
        };
        write!(formatter, "{reason} (it was not sent)")
    }
}

impl StdError for SendError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
