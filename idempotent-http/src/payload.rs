//! What must not change under one key.

use idempotent_runtime::Fingerprint;
use serde_json::Value;

/// What two requests with one key must have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Payload {
    /// The bytes of the body, and the query.
    Bytes,
    /// The body as JSON, whatever the order of its members and its white space, and the query. A
    /// body that is not JSON counts as bytes. Numbers that do not fit 64 bits are compared as
    /// floating-point numbers, and of members with one name the last one counts.
    CanonicalJson,
    /// These members of a JSON body, by JSON pointer (`/amount`, `/items/0/sku`), and nothing else. A
    /// body that is not JSON counts as bytes, and so does every body if one of these is not a pointer:
    /// it begins with a slash.
    Members(Vec<String>),
    /// Nothing: the key alone decides.
    Ignored,
}

impl Payload {
    pub(crate) fn fingerprint(&self, query: Option<&str>, body: &[u8]) -> Option<Fingerprint> {
        let query = query.unwrap_or_default();
        match self {
            Self::Ignored => None,
            Self::Bytes => Some(of(b"bytes", query, body)),
            Self::CanonicalJson => Some(match serde_json::from_slice::<Value>(body) {
                Ok(json) => of(b"json", query, sorted(json).to_string().as_bytes()),
                Err(_) => of(b"bytes", query, body),
            }),
            Self::Members(pointers) => Some(match serde_json::from_slice::<Value>(body) {
                // What is not a pointer finds nothing: all bodies would be one.
                Ok(json) if pointers.iter().all(|pointer| is_pointer(pointer)) => {
                    let json = sorted(json);
                    let members: Vec<_> =
                        pointers.iter().map(|pointer| (pointer, json.pointer(pointer))).collect();
                    let text = serde_json::to_vec(&members).unwrap_or_default();
                    of(b"members", "", &text)
                }
                _ => of(b"bytes", query, body),
            }),
        }
    }
}

fn is_pointer(text: &str) -> bool {
    text.is_empty() || text.starts_with('/')
}

/// With members in the order of their names, also where somebody else switches on a feature of
/// `serde_json` that keeps the order in which they came.
fn sorted(mut json: Value) -> Value {
    json.sort_all_objects();
    json
}

/// Parts of known length, so that none runs into the next.
fn of(kind: &[u8], query: &str, body: &[u8]) -> Fingerprint {
    let length = |part: &[u8]| (part.len() as u64).to_be_bytes();
    let query = query.as_bytes();
    Fingerprint::of_parts([&length(kind)[..], kind, &length(query)[..], query, body])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(payload: &Payload, one: (&str, &str), two: (&str, &str)) -> bool {
        let of = |(query, body): (&str, &str)| payload.fingerprint(Some(query), body.as_bytes());
        of(one) == of(two)
    }

    #[test]
    fn bytes_differ_by_every_byte_and_by_the_query() {
        assert!(same(&Payload::Bytes, ("a=1", "x"), ("a=1", "x")));
        assert!(!same(&Payload::Bytes, ("", r#"{"a":1,"b":2}"#), ("", r#"{"b":2,"a":1}"#)));
        assert!(!same(&Payload::Bytes, ("a=1", "x"), ("a=2", "x")));
        assert!(!same(&Payload::Bytes, ("a", "bc"), ("ab", "c")));
    }

    #[test]
    fn canonical_json_ignores_order_and_space() {
        let canonical = &Payload::CanonicalJson;
        assert!(same(
            canonical,
            ("", r#"{"a":1,"b":{"d":1,"c":2}}"#),
            ("", "{\"b\":{\"c\":2,\"d\":1}, \"a\":1}")
        ));
        assert!(!same(canonical, ("", r#"{"a":1}"#), ("", r#"{"a":2}"#)));
        assert!(!same(canonical, ("", r#"[1,2]"#), ("", r#"[2,1]"#)));
        assert!(!same(canonical, ("", "not json"), ("", "not  json")));
    }

    #[test]
    fn members_ignore_everything_else() {
        let amount = &Payload::Members(vec!["/amount".to_owned()]);
        assert!(same(
            amount,
            ("", r#"{"amount":1,"note":"a"}"#),
            ("q", r#"{"amount":1,"note":"b"}"#)
        ));
        assert!(!same(amount, ("", r#"{"amount":1}"#), ("", r#"{"amount":2}"#)));
        assert!(!same(amount, ("", r#"{"amount":null}"#), ("", r#"{"amount":1}"#)));
    }
    #[test]
    fn what_is_not_a_pointer_does_not_make_all_bodies_one() {
        let amount = &Payload::Members(vec!["amount".to_owned()]);
        assert!(same(amount, ("", r#"{"amount":1}"#), ("", r#"{"amount":1}"#)));
        assert!(!same(amount, ("", r#"{"amount":1}"#), ("", r#"{"amount":2}"#)));
    }
}
