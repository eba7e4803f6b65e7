//! Problem types of HTTP: requests, bodies, forms and handlers.
//!
//! The layers answer with these and with the types of
//! [operations](idempotent_runtime::problem::ProblemType). All have a page of their own in the
//! documentation, which says what happened and what a client can do.
//!
//! ```
//! use idempotent_http::problem;
//!
//! let kind = problem::from_code("body-too-large");
//! assert_eq!(kind, Some(problem::BODY_TOO_LARGE));
//! ```

pub(crate) mod responses;

pub(crate) use responses::{
    Dialect, handler_failed, hook_panicked, kept_transaction, mark, misconfigured, not_committed,
    overloaded,
};

use idempotent_runtime::observe::Ending;
use idempotent_runtime::problem::ProblemType;

/// Too many handlers go on without their clients.
pub const OVERLOADED: ProblemType =
    ProblemType::new("overloaded", 503, "this server is overloaded", Ending::Refused).transient();

/// The client has begun as many keys as it may in a period.
pub const TOO_MANY_KEYS: ProblemType =
    ProblemType::new("too-many-keys", 429, "too many new keys", Ending::Refused).transient();

/// No request with this key has an answer or is in progress.
pub const UNKNOWN_KEY: ProblemType =
    ProblemType::new("unknown-key", 404, "no request with this key is known", Ending::Invalid);

/// The principal on whose behalf the request is made is unknown.
pub const SCOPE_MISSING: ProblemType = ProblemType::new(
    "scope-missing",
    403,
    "it is not known on whose behalf this request is made",
    Ending::Invalid,
);

/// It cannot be found out on whose behalf the request is made.
pub const SCOPE_UNAVAILABLE: ProblemType = ProblemType::new(
    "scope-unavailable",
    503,
    "the sender of this request cannot be identified at the moment",
    Ending::Refused,
)
.transient();

/// The body is larger than a keyed request may have.
pub const BODY_TOO_LARGE: ProblemType =
    ProblemType::new("body-too-large", 413, "the body is too large", Ending::Invalid);

/// The body ended early.
pub const BODY_INCOMPLETE: ProblemType =
    ProblemType::new("body-incomplete", 400, "the body ended early", Ending::Invalid).transient();

/// The body cannot be decoded.
pub const BODY_UNDECODABLE: ProblemType =
    ProblemType::new("body-undecodable", 400, "the body cannot be decoded", Ending::Invalid);

/// The handler panicked, or its response broke off.
pub const HANDLER_FAILED: ProblemType =
    ProblemType::new("handler-failed", 500, "the handler failed", Ending::Failed).transient();

/// The handler's transaction could not be committed.
pub const NOT_COMMITTED: ProblemType = ProblemType::new(
    "not-committed",
    503,
    "the result of this request could not be committed",
    Ending::Failed,
)
.transient();

/// The form has no token.
pub const FORM_TOKEN_MISSING: ProblemType =
    ProblemType::new("form-token-missing", 400, "the form has no token", Ending::Invalid);

/// The form was sent before.
pub const FORM_TOKEN_USED: ProblemType =
    ProblemType::new("form-token-used", 409, "this form was sent before", Ending::Rejected);

/// The form has expired, or its token was never issued.
pub const FORM_TOKEN_UNKNOWN: ProblemType =
    ProblemType::new("form-token-unknown", 403, "this form has expired", Ending::Invalid);

/// The form was shown to someone else.
pub const FORM_TOKEN_FOREIGN: ProblemType = ProblemType::new(
    "form-token-foreign",
    403,
    "this form belongs to another user",
    Ending::Invalid,
);

const OF_HTTP: [ProblemType; 14] = [
    OVERLOADED,
    TOO_MANY_KEYS,
    UNKNOWN_KEY,
    SCOPE_MISSING,
    SCOPE_UNAVAILABLE,
    BODY_TOO_LARGE,
    BODY_INCOMPLETE,
    BODY_UNDECODABLE,
    HANDLER_FAILED,
    NOT_COMMITTED,
    FORM_TOKEN_MISSING,
    FORM_TOKEN_USED,
    FORM_TOKEN_UNKNOWN,
    FORM_TOKEN_FOREIGN,
];

/// All types that the layers answer with: those of operations, then those of HTTP.
pub fn all() -> impl Iterator<Item = ProblemType> {
    ProblemType::ALL.iter().copied().chain(OF_HTTP)
}

/// The type with this code, as the header
/// [`Idempotency-Problem`](crate::header::IDEMPOTENCY_PROBLEM) and the member `code` of a problem
/// carry it.
pub fn from_code(code: &str) -> Option<ProblemType> {
    all().find(|kind| kind.code() == code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    fn pages() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/problems"))
    }

    #[test]
    fn every_code_and_title_is_its_own() {
        for part in [ProblemType::code, ProblemType::title] {
            let parts: BTreeSet<_> = all().map(part).collect();
            assert_eq!(parts.len(), all().count());
        }
    }

    #[test]
    fn every_type_has_a_page_and_every_page_a_type() {
        let names = fs::read_dir(pages()).unwrap().map(|page| page.unwrap().file_name());
        let names: BTreeSet<_> = names.map(|name| name.into_string().unwrap()).collect();
        assert_eq!(names, all().map(|kind| format!("{}.md", kind.code())).collect());
    }

    #[test]
    fn a_page_tells_to_send_it_again_if_that_helps() {
        for kind in all() {
            let page = fs::read_to_string(pages().join(format!("{}.md", kind.code()))).unwrap();
            let (page, head) =
                (page.to_lowercase(), format!("Status {}: {}.", kind.status(), kind.title()));
            let again = page.contains("with the same key") && page.contains("send the");
            assert_eq!(again, kind.is_transient(), "{}", kind.code());
            assert!(page.contains(&head.to_lowercase()), "{head}");
        }
    }

    #[test]
    fn a_type_is_found_by_its_code() {
        for kind in all() {
            assert_eq!(from_code(kind.code()), Some(kind));
        }
        assert_eq!(from_code("in progress"), None);
    }
}
