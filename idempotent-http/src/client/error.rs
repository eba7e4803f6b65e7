//! Why a request has no answer.

use http::HeaderValue;
use std::error::Error as StdError;
use std::fmt;

/// Why a request has no answer, and whether it may have been handled.
#[derive(Debug)]
pub struct SendError {
    kind: SendErrorKind,
    key: Option<HeaderValue>,
    attempts: u32,
    may_have_run: bool,
    source: Option<reqwest::Error>,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendErrorKind {
    /// The key is empty, longer than 255 characters, or not printable ASCII.
    InvalidKey,
    /// The request could not be built, or the client does not send such ones.
    InvalidRequest,
    /// The body is a stream, which cannot be sent twice.
    NotRepeatable,
    /// No attempt got a whole answer.
    NoAnswer,
}

impl SendError {
    pub(super) fn not_sent(kind: SendErrorKind) -> Self {
        Self { kind, key: None, attempts: 0, may_have_run: false, source: None }
    }

    pub(super) fn no_answer(
        source: reqwest::Error,
        key: Option<HeaderValue>,
        attempts: u32,
        may_have_run: bool,
    ) -> Self {
        let source = Some(source.without_url());
        Self { kind: SendErrorKind::NoAnswer, key, attempts, may_have_run, source }
    }

    pub(super) fn with_source(mut self, source: reqwest::Error) -> Self {
        self.source = Some(source.without_url());
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> SendErrorKind {
        self.kind
    }

    /// The value of the key's header, with which the request can be sent again later.
    pub fn key(&self) -> Option<&HeaderValue> {
        self.key.as_ref()
    }

    /// How often the request was sent.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether the server may have handled the request. If not, none of its attempts got as far as a
    /// connection.
    ///
    /// A client that follows redirects does not tell which connection could not be made. Where a
    /// server may redirect to another one, this holds only with a client that does not follow.
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
