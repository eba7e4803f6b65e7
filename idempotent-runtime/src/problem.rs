//! Refusals as HTTP problem details: one stable type for each thing that can happen.
//!
//! [`ProblemType`] is the table. The HTTP layer answers with it, and with the feature `axum` an
//! [`Error`] is a response by itself.

use crate::error::{BodyRun, Error, ErrorKind};
use std::fmt;
use std::time::Duration;

/// The header that carries the [code](ProblemType::code) of a problem, so that it cannot be mistaken
/// for an answer of the application's own with the same status.
pub const CODE_HEADER: &str = "idempotency-problem";

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Where the types are described.
const PAGES: &str = "https://github.com/idempotent-rs/idempotent/blob/main/docs/problems/";

macro_rules! problem_types {
    ($($(#[$doc:meta])* $name:ident = $status:literal $code:literal $title:literal;)*) => {
        /// What went wrong, as a stable type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ProblemType {
            $($(#[$doc])* $name,)*
        }

        impl ProblemType {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// A short stable name.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// What it means, in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

problem_types! {
    /// The route needs a key, and the request has none.
    MissingKey = 400 "missing-key" "an idempotency key is required";
    /// The key is empty, too long, malformed, or given twice.
    InvalidKey = 400 "invalid-key" "the idempotency key is not valid";
    /// It was done before, and answers are not kept.
    Duplicate = 409 "duplicate" "this request was handled before";
    /// Another request with this key is being handled.
    InProgress = 409 "in-progress" "a request with this key is in progress";
    /// The key was used with another payload.
    PayloadMismatch = 422 "payload-mismatch" "this key was used with another payload";
    /// An earlier request with this key began, and nobody knows how it ended.
    OutcomeUnknown = 409 "outcome-unknown" "the outcome of an earlier request is unknown";
    /// Another attempt took over while this one ran.
    Superseded = 409 "superseded" "another request with this key took over";
    /// It was done, and its answer is not known to be recorded.
    NotRecorded = 503 "not-recorded" "handled, but the result is not recorded yet";
    /// It was done before, and its answer was not retained.
    ResultNotRetained = 409 "result-not-retained" "handled before, but the result was not retained";
    /// It was done before, and its answer cannot be read.
    ResultUnreadable = 500 "result-unreadable" "handled before, but the result cannot be read";
    /// The store does not answer.
    StoreUnavailable = 503 "store-unavailable" "requests cannot be protected at the moment";
    /// The store has no room.
    StoreFull = 503 "store-full" "there is no room for another request";
    /// The store has too few replicas.
    NotReplicated = 503 "not-replicated" "requests cannot be replicated at the moment";
    /// Too many handlers go on without their clients.
    Overloaded = 503 "overloaded" "this server is overloaded";
    /// The process is shutting down.
    ShuttingDown = 503 "shutting-down" "this server is shutting down";
    /// The server is set up wrongly.
    Misconfigured = 500 "misconfigured" "the server is set up wrongly";
    /// The client has begun as many keys as it may in a period.
    TooManyKeys = 429 "too-many-keys" "too many new keys";
    /// No request with this key has an answer or is in progress.
    UnknownKey = 404 "unknown-key" "no request with this key is known";
    /// It is not known on whose behalf the request is made.
    ScopeMissing = 403 "scope-missing" "it is not known on whose behalf this request is made";
    /// It cannot be found out on whose behalf the request is made.
    ScopeUnavailable = 503 "scope-unavailable" "the sender of this request cannot be identified at the moment";
    /// The body is larger than a keyed request may have.
    BodyTooLarge = 413 "body-too-large" "the body is too large";
    /// The body ended early.
    BodyIncomplete = 400 "body-incomplete" "the body ended early";
    /// The body cannot be decoded.
    BodyUndecodable = 400 "body-undecodable" "the body cannot be decoded";
    /// The handler panicked, or its response broke off.
    HandlerFailed = 500 "handler-failed" "the handler failed";
    /// The form has no token.
    FormTokenMissing = 400 "form-token-missing" "the form has no token";
    /// The form was sent before.
    FormTokenUsed = 409 "form-token-used" "this form was sent before";
    /// The form has expired, or its token was never issued.
    FormTokenUnknown = 403 "form-token-unknown" "this form has expired";
    /// The form belongs to somebody else.
    FormTokenForeign = 403 "form-token-foreign" "this form belongs to somebody else";
}

impl ProblemType {
    /// The absolute address of its description.
    pub fn uri(self) -> String {
        format!("{PAGES}{}.md", self.code())
    }

    /// The type with this code.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.code() == code)
    }

    /// Whether the same request with the same key gets another answer later.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::InProgress
                | Self::Superseded
                | Self::NotRecorded
                | Self::StoreUnavailable
                | Self::StoreFull
                | Self::NotReplicated
                | Self::Overloaded
                | Self::ShuttingDown
                | Self::ScopeUnavailable
                | Self::TooManyKeys
                | Self::BodyIncomplete
                | Self::HandlerFailed
        )
    }
}

impl From<ErrorKind> for ProblemType {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::MissingKey => Self::MissingKey,
            ErrorKind::InvalidKey => Self::InvalidKey,
            ErrorKind::Duplicate => Self::Duplicate,
            ErrorKind::InProgress => Self::InProgress,
            ErrorKind::Mismatch => Self::PayloadMismatch,
            ErrorKind::Indeterminate => Self::OutcomeUnknown,
            ErrorKind::Reentrant | ErrorKind::Misconfigured => Self::Misconfigured,
            ErrorKind::StoreUnavailable => Self::StoreUnavailable,
            ErrorKind::StoreFull => Self::StoreFull,
            ErrorKind::NotReplicated => Self::NotReplicated,
            ErrorKind::ShuttingDown => Self::ShuttingDown,
            ErrorKind::Superseded => Self::Superseded,
            ErrorKind::Unrecorded => Self::NotRecorded,
            ErrorKind::ResultUnavailable => Self::ResultNotRetained,
            ErrorKind::Undecodable => Self::ResultUnreadable,
        }
    }
}

/// One refusal, as a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    kind: ProblemType,
    detail: String,
    retry_after: Option<Duration>,
    original_status: Option<u16>,
}

impl Problem {
    /// A problem with what can be said about this case. The detail must hold no key and no value.
    pub fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), retry_after: None, original_status: None }
    }

    /// Adds when a repeat makes sense.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Adds the status of the response that the request got when it was handled.
    #[must_use]
    pub fn original_status(mut self, status: u16) -> Self {
        self.original_status = Some(status);
        self
    }

    /// What can be said about this case: that the request was handled or not, among other things.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Which problem it is.
    pub fn kind(&self) -> ProblemType {
        self.kind
    }

    /// The value of `Retry-After`, in whole seconds, at least one.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        let after = self.retry_after?;
        Some(after.as_millis().div_ceil(1000).clamp(1, u64::MAX.into()) as u64)
    }

    /// The body, as JSON.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::json!({
            "type": self.kind.uri(),
            "title": self.kind.title(),
            "status": self.kind.status(),
            "detail": self.detail,
            "code": self.kind.code(),
        });
        if let Some(status) = self.original_status {
            json["original_status"] = status.into();
        }
        json.to_string()
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let ran = match (error.body(), error.kind()) {
            (BodyRun::Ran, _) => "it was handled",
            (BodyRun::Unknown, _) => "it is unknown whether it was handled",
            // For its client, the earlier request is this one.
            (_, ErrorKind::Duplicate | ErrorKind::ResultUnavailable | ErrorKind::Undecodable) => {
                "it was not handled again"
            }
            (BodyRun::DidNotRun, _) => "it was not handled",
        };
        let kind = ProblemType::from(error.kind());
        let detail = match error.kind() {
            ErrorKind::Duplicate | ErrorKind::InProgress => format!("{} ({ran})", error.message()),
            // What a store or a codec says is for the log.
            _ => format!("{} ({ran})", kind.title()),
        };
        let problem = Self::new(kind, detail);
        match (error.retry_after(), kind.status()) {
            (Some(after), _) => problem.retry_after(after),
            (None, 503) => problem.retry_after(Duration::from_secs(1)),
            (None, _) if kind == ProblemType::InProgress => {
                problem.retry_after(Duration::from_secs(1))
            }
            _ => problem,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.kind.code(), self.detail)
    }
}

#[cfg(feature = "axum")]
mod response {
    use super::{CODE_HEADER, Error, MEDIA_TYPE, Problem};
    use axum_core::body::Body;
    use axum_core::response::{IntoResponse, Response};
    use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
    use http::{HeaderName, StatusCode};

    impl IntoResponse for Problem {
        fn into_response(self) -> Response {
            let mut response = Response::new(Body::from(self.to_json()));
            let status = StatusCode::from_u16(self.kind.status());
            *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            let code = HeaderValue::from_static(self.kind.code());
            headers.insert(HeaderName::from_static(CODE_HEADER), code);
            if let Some(seconds) = self.retry_after_seconds() {
                headers.insert(RETRY_AFTER, seconds.into());
            }
            response
        }
    }

    impl IntoResponse for Error {
        fn into_response(self) -> Response {
            Problem::from(&self).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_and_title_is_its_own() {
        for part in [ProblemType::code, ProblemType::title] {
            let mut all: Vec<_> = ProblemType::ALL.iter().map(|kind| part(*kind)).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), ProblemType::ALL.len());
        }
    }

    fn page(kind: ProblemType) -> String {
        let path = format!("{}/../docs/problems/{}.md", env!("CARGO_MANIFEST_DIR"), kind.code());
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    #[test]
    fn every_type_has_a_page_that_tells_to_send_it_again_if_that_helps() {
        for kind in ProblemType::ALL {
            let page = page(*kind).to_lowercase();
            let again = page.contains("with the same key") && page.contains("send the");
            assert_eq!(again, kind.is_transient(), "{}", kind.code());
        }
    }

    #[test]
    fn a_type_is_found_by_its_code() {
        for kind in ProblemType::ALL {
            assert_eq!(ProblemType::from_code(kind.code()), Some(*kind));
        }
        assert_eq!(ProblemType::from_code("in progress"), None);
    }

    #[test]
    fn a_problem_tells_whether_it_was_handled_and_when_to_come_back() {
        let error = Error::new(ErrorKind::InProgress, &"o".into())
            .with_message("please wait")
            .with_retry_after(Duration::from_millis(1200));
        let problem = Problem::from(&error);
        assert_eq!(problem.retry_after_seconds(), Some(2));
        let json: serde_json::Value = serde_json::from_str(&problem.to_json()).unwrap();
        assert_eq!(json["status"], 409);
        assert_eq!(json["code"], "in-progress");
        assert_eq!(json["detail"], "please wait (it was not handled)");
        assert!(json["type"].as_str().unwrap().ends_with("/docs/problems/in-progress.md"));
    }

    #[test]
    fn the_status_of_what_was_handled_before_is_told_where_it_is_known() {
        let json = |problem: Problem| -> serde_json::Value {
            serde_json::from_str(&problem.to_json()).unwrap()
        };
        let problem = Problem::new(ProblemType::ResultNotRetained, "not again");
        assert_eq!(json(problem.clone()).get("original_status"), None);
        assert_eq!(json(problem.original_status(201))["original_status"], 201);
    }

    #[test]
    fn what_was_handled_before_is_not_said_to_be_unhandled() {
        for kind in [ErrorKind::Duplicate, ErrorKind::ResultUnavailable, ErrorKind::Undecodable] {
            let problem = Problem::from(&Error::new(kind, &"o".into()));
            assert!(problem.to_json().contains("(it was not handled again)"), "{problem}");
        }
    }

    #[cfg(feature = "redis")]
    #[test]
    fn what_may_have_been_handled_is_not_said_to_be_unhandled() {
        let error = Error::new(ErrorKind::StoreUnavailable, &"o".into()).with_body_unknown();
        let problem = Problem::from(&error);
        assert!(problem.to_json().contains("(it is unknown whether it was handled)"), "{problem}");
    }

    #[test]
    fn what_the_store_said_is_not_told_to_clients() {
        let error = Error::new(ErrorKind::StoreUnavailable, &"o".into())
            .with_message("redis: connection refused at 10.0.0.7");
        assert!(!Problem::from(&error).to_json().contains("10.0.0.7"));
    }
}
