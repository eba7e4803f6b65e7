//! The retry decision about an answer.

use crate::problem;
use http::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use http::{Response, StatusCode};
use idempotent_runtime::problem::{CODE_HEADER, ProblemType};
use std::time::{Duration, SystemTime};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Final,
    Again {
        /// The pause that the server asks for.
        after: Option<Duration>,
    },
}

impl Verdict {
    pub(super) fn of<B>(answer: &Response<B>) -> Self {
        let after = retry_after(answer.headers(), SystemTime::now());
        let again = match problem_code(answer.headers()) {
            Some(code) => problem::from_code(code).is_some_and(ProblemType::is_transient),
            None => match answer.status() {
                StatusCode::CONFLICT => after.is_some(),
                status => is_transient(status),
            },
        };
        if again { Self::Again { after } } else { Self::Final }
    }

    /// Decides about a request without an answer. A redirect loop, or a redirect that the client
    /// does not follow, would fail again.
    pub(super) fn of_error(error: &reqwest::Error) -> Self {
        match error.is_builder() || error.is_redirect() {
            true => Self::Final,
            false => Self::Again { after: None },
        }
    }
}

/// The problem code, if the answer is a refusal by an idempotency layer.
fn problem_code(headers: &HeaderMap) -> Option<&str> {
    Some(headers.get(CODE_HEADER)?.to_str().unwrap_or_default())
}

fn is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504)
}

/// The pause that `Retry-After` asks for, in seconds or as a date.
///
/// A date is compared with the server's own, so that the difference between its clock and ours does
/// not count. A number that is too large to be read is a long time, not none.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    Some(until.duration_since(date(headers, DATE).unwrap_or(now)).unwrap_or_default())
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: u16, headers: &[(&'static str, &'static str)]) -> Verdict {
        let mut answer = Response::new(());
        *answer.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in headers {
            answer.headers_mut().insert(*name, value.parse().unwrap());
        }
        Verdict::of(&answer)
    }

    const AT_ONCE: Verdict = Verdict::Again { after: None };

    fn after(seconds: u64) -> Verdict {
        Verdict::Again { after: Some(Duration::from_secs(seconds)) }
    }

    #[test]
    fn what_passes_is_sent_again_and_nothing_else() {
        for status in [408, 425, 429, 500, 502, 503, 504] {
            assert_eq!(verdict(status, &[]), AT_ONCE, "{status}");
        }
        for status in [200, 201, 204, 303, 400, 401, 403, 404, 409, 413, 422, 501, 505] {
            assert_eq!(verdict(status, &[]), Verdict::Final, "{status}");
        }
    }

    #[test]
    fn a_conflict_is_sent_again_when_the_server_says_when() {
        assert_eq!(verdict(409, &[("retry-after", "3")]), after(3));
        assert_eq!(verdict(422, &[("retry-after", "3")]), Verdict::Final);
    }

    #[test]
    fn the_code_of_a_problem_goes_before_its_status() {
        for kind in problem::all() {
            let headers = [(CODE_HEADER, kind.code()), ("retry-after", "2")];
            let expected = if kind.is_transient() { after(2) } else { Verdict::Final };
            assert_eq!(verdict(kind.status(), &headers), expected, "{}", kind.code());
        }
        assert_eq!(verdict(503, &[(CODE_HEADER, "of a later version")]), Verdict::Final);
    }

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let read = |text: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers, now)
        };
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(read("120"), seconds(120));
        assert_eq!(read("Sun, 09 Sep 2001 01:46:45 GMT"), seconds(5));
        assert_eq!(read("Sun, 09 Sep 2001 01:46:30 GMT"), seconds(0));
        assert_eq!(read("99999999999999999999999"), seconds(u64::MAX));
        for bad in ["soon", "-1", "+1", "1.5", ""] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_date_is_compared_with_the_clock_that_it_was_read_from() {
        let now = SystemTime::now();
        let server_is_behind = HeaderMap::from_iter([
            (DATE, "Sun, 09 Sep 2001 01:46:40 GMT".parse().unwrap()),
            (RETRY_AFTER, "Sun, 09 Sep 2001 01:46:45 GMT".parse().unwrap()),
        ]);
        assert_eq!(retry_after(&server_is_behind, now), Some(Duration::from_secs(5)));
    }
}
