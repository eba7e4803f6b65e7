//! Reasons for the failure of an assertion, with their messages.

use http::StatusCode;
use http::request::Parts;

#[derive(Debug)]
pub(super) enum Fault {
    /// The service or a body failed with this error.
    Failed(String),
    /// The request was refused with this answer.
    Refused(String),
    /// The request was handled, and a repeat was refused with this answer.
    RepeatRefused(String),
    /// All answers were replays.
    UsedBefore,
    /// No layer reads the key.
    NotGuarded,
    /// Responses with this status are not stored.
    Freed(StatusCode),
    /// The handler excluded the response with `NoStore`.
    NoStore,
    /// The body was streamed.
    Live,
    /// The response was not stored, although its status is one that is stored by default.
    NotKept(StatusCode),
    Differs {
        what: String,
        first: String,
        replay: String,
    },
    /// The request was handled without a key.
    KeyNotRequired(StatusCode),
}

impl Fault {
    pub(super) fn told(&self, request: &Parts) -> String {
        let (wrong, help) = self.wrong_and_help();
        let (method, path) = (&request.method, request.uri.path());
        format!("{method} {path} {wrong}\n  help: {help}")
    }

    fn wrong_and_help(&self) -> (String, &'static str) {
        match self {
            Self::Failed(error) => (
                format!("was not answered: {error}"),
                "a service must answer before it is repeated",
            ),
            Self::Refused(answer) => (
                format!("was refused: {answer}"),
                "send what the route needs, such as a body, credentials, or a key that is not in use",
            ),
            Self::RepeatRefused(answer) => (
                format!("was handled, and its repeat refused: {answer}"),
                "a repeat must reach the layer as the first request did: look at what is outside of it",
            ),
            Self::UsedBefore => (
                "was not handled: every answer is a replay".to_owned(),
                "the key was used before; leave it out, and each assertion gets a key of its own",
            ),
            Self::NotGuarded => (
                "was handled more than once: no layer looks at its key".to_owned(),
                "put `IdempotencyLayer` around the route, and look at its `methods` and `headers`: by \
                 default it guards POST and PATCH by `Idempotency-Key`",
            ),
            Self::Freed(status) => (
                format!(
                    "was handled more than once: its response is not stored with status {status}"
                ),
                "let the handler succeed, or choose what is stored with `store_server_errors` or \
                 `store_statuses`",
            ),
            Self::NoStore => (
                "was handled more than once: its response has the extension `NoStore`".to_owned(),
                "a response with `NoStore` frees the key; leave the extension out",
            ),
            Self::Live => (
                "was handled, and its response not retained: it is a stream, or too large"
                    .to_owned(),
                "a repeat gets 409 `result-not-retained`; make the response smaller, or \
                 `max_response_bytes` and the `max_value_bytes` of the instance larger",
            ),
            Self::NotKept(status) => (
                format!("was handled more than once: its response, {status}, is not stored"),
                "the layer has `ambient_only`, which stores nothing; or `store_statuses` leaves this \
                 status out; or something outside of the layer takes off `Idempotent-Replayed`",
            ),
            Self::Differs { what, first, replay } => (
                format!("was replayed with another {what}\n  first:  {first}\n  replay: {replay}"),
                "what is outside of the layer changes responses; put the layer outside of it",
            ),
            Self::KeyNotRequired(status) => (
                format!("was handled without a key, with status {status}"),
                "add `require_key()` to the layer, and put it around this route",
            ),
        }
    }
}
