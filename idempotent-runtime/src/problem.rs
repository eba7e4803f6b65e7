//! Refusals as HTTP problem details, each with a stable type.
//!
//! A [`Problem`] has a [`ProblemType`]. The HTTP layer responds with it, and with the feature
//! `axum` an [`Error`] is itself a response. Clients compare the `type`, a URI that ends in the
//! type's code: under `urn:idempotent:problem:`, or under the [base](TypeBase) that the service
//! [sets](set_base).

mod base;
mod kind;

pub use base::{BaseAlreadySet, InvalidTypeBase, TypeBase, set_base};
pub use kind::ProblemType;

use crate::error::{BodyRun, Error, ErrorKind};
use std::fmt;
use std::time::Duration;

/// The header that carries the [code](ProblemType::code) of a problem, so that it cannot be mistaken
/// for an answer of the application's own with the same status.
pub const CODE_HEADER: &str = "idempotency-problem";

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// One refusal, in the form that a client receives.
///
/// ```
/// use idempotent_runtime::problem::Problem;
/// use idempotent_runtime::{Error, Idempotency};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::in_memory()?;
/// let refused = idem.operation("o").key("").run(async { Ok::<_, Error>(()) }).await;
/// let problem = Problem::from(&refused.unwrap_err());
/// assert_eq!((problem.kind().status(), problem.kind().code()), (400, "invalid-key"));
/// println!("{}", problem.to_json());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    kind: ProblemType,
    base: Option<TypeBase>,
    detail: String,
    retry_after: Option<Duration>,
    original_status: Option<u16>,
}

impl Problem {
    /// Creates a problem with a detail on this occurrence. The detail must not contain a key or a
    /// value.
    pub fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { kind, base: None, detail, retry_after: None, original_status: None }
    }

    /// Sets the time after which a retry makes sense.
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

    /// Names the type under this base, whatever [`set_base`] says.
    #[must_use]
    pub fn base(mut self, base: TypeBase) -> Self {
        self.base = Some(base);
        self
    }

    /// The URI of its type, which ends in the type's code.
    pub fn type_uri(&self) -> String {
        match &self.base {
            Some(base) => base.uri(self.kind),
            None => base::uri(self.kind),
        }
    }

    /// The detail on this occurrence, such as whether the request was handled.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The type of this problem.
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
            "type": self.type_uri(),
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
            // To the client, this request and the earlier one are the same.
            (
                _,
                ErrorKind::Duplicate
                | ErrorKind::ResultUnavailable
                | ErrorKind::FailedBefore
                | ErrorKind::Undecodable,
            ) => "it was not handled again",
            (BodyRun::DidNotRun, _) => "it was not handled",
        };
        let kind = ProblemType::from(error.kind());
        let detail = match error.kind() {
            ErrorKind::Duplicate | ErrorKind::InProgress => format!("{} ({ran})", error.message()),
            // Messages of stores and codecs belong in the log.
            _ => format!("{} ({ran})", kind.title()),
        };
        let problem = Self::new(kind, detail);
        match (error.retry_after(), kind.status()) {
            (Some(after), _) => problem.retry_after(after),
            (None, 503) => problem.retry_after(Duration::from_secs(1)),
            (None, _) if kind == ProblemType::IN_PROGRESS => {
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
    fn a_type_is_named_under_no_host_unless_the_service_sets_one() {
        let problem = Problem::new(ProblemType::IN_PROGRESS, "x");
        assert_eq!(problem.type_uri(), "urn:idempotent:problem:in-progress");
        let base: TypeBase = "https://shop.example/problems#".parse().unwrap();
        let json = problem.base(base).to_json();
        assert!(json.contains(r#""type":"https://shop.example/problems#in-progress""#), "{json}");
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
        assert_eq!(json["type"], "urn:idempotent:problem:in-progress");
    }

    #[test]
    fn the_status_of_what_was_handled_before_is_told_where_it_is_known() {
        let json = |problem: Problem| -> serde_json::Value {
            serde_json::from_str(&problem.to_json()).unwrap()
        };
        let problem = Problem::new(ProblemType::RESULT_NOT_RETAINED, "not again");
        assert_eq!(json(problem.clone()).get("original_status"), None);
        assert_eq!(json(problem.original_status(201))["original_status"], 201);
    }

    #[test]
    fn what_was_handled_before_is_not_said_to_be_unhandled() {
        for kind in [
            ErrorKind::Duplicate,
            ErrorKind::ResultUnavailable,
            ErrorKind::FailedBefore,
            ErrorKind::Undecodable,
        ] {
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
