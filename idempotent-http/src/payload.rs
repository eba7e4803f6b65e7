//! The part of a request that must not change under one key.

use crate::multipart;
use http::request::Parts;
use idempotent_runtime::Fingerprint;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// The part of a request that must not change under one key.
///
/// If bodies are compared as bytes, a `multipart/form-data` body counts without its boundary, which
/// clients make up anew each time they send a form; one that cannot be taken apart counts as it is.
/// The parameter of the query that carries the key never counts.
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
    /// member that is missing differs from every value. A body that has none of them counts as bytes
    /// with the query, and so does one that is not JSON.
    Members(Vec<String>),
    /// The bytes that a function makes of the request, and nothing else: see [`Payload::by`].
    By(Comparison),
    /// Nothing: the key alone decides.
    Ignored,
}

type Compared = Arc<dyn Fn(&Parts, &[u8]) -> Vec<u8> + Send + Sync>;

/// A comparison by a function, made by [`Payload::by`]. Equal to its clones only.
#[derive(Clone)]
pub struct Comparison(Compared);

impl PartialEq for Comparison {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Comparison {}

impl fmt::Debug for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Comparison(..)")
    }
}

impl Payload {
    /// Compares requests by a function of their head and body. Two are the same if it makes the same
    /// bytes of both; the query counts only if the function writes it.
    ///
    /// It runs before anything is handled, and must not block. If it panics, the request is answered
    /// with 500 and not handled.
    ///
    /// ```
    /// use idempotent_http::Payload;
    ///
    /// // A client that sends the time of each try in the second line of the body.
    /// let first_line = Payload::by(|_, body| {
    ///     body.split(|byte| *byte == b'\n').next().unwrap_or_default().to_vec()
    /// });
    /// # drop(first_line);
    /// ```
    pub fn by(compared: impl Fn(&Parts, &[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::By(Comparison(Arc::new(compared)))
    }

    /// The fingerprint of a request whose query, without the key, is `query`.
    pub(crate) fn fingerprint(
        &self,
        parts: &Parts,
        query: &str,
        body: &[u8],
    ) -> Option<Fingerprint> {
        Some(match self {
            Self::Ignored => return None,
            Self::Bytes => of_bytes(parts, query, body),
            Self::CanonicalJson => match serde_json::from_slice::<Value>(body) {
                Ok(json) => of(b"json", query, sorted(json).to_string().as_bytes()),
                Err(_) => of_bytes(parts, query, body),
            },
            Self::Members(pointers) => match members(pointers, body) {
                Some(members) => of(b"members", "", &members),
                None => of_bytes(parts, query, body),
            },
            Self::By(Comparison(compared)) => of(b"by", "", &compared(parts, body)),
        })
    }

    /// Describes why members would never be found, if that is so.
    pub(crate) fn mistake(&self) -> Option<String> {
        let Self::Members(pointers) = self else { return None };
        let text = pointers.iter().find(|text| !is_pointer(text))?;
        Some(format!(
            "`Payload::Members` cannot hold {text:?}; accepted: JSON pointers, such as \"/amount\""
        ))
    }
}

/// The members of a body that these pointers find; `None` if there are none, since all such bodies
/// would compare equal.
fn members(pointers: &[String], body: &[u8]) -> Option<Vec<u8>> {
    let json = sorted(serde_json::from_slice::<Value>(body).ok()?);
    let members: Vec<_> = pointers.iter().map(|pointer| (pointer, json.pointer(pointer))).collect();
    if members.iter().all(|(_, found)| found.is_none()) {
        return None;
    }
    // A missing member must not compare equal to one that is null.
    let members: Vec<_> = members.into_iter().filter(|(_, found)| found.is_some()).collect();
    serde_json::to_vec(&members).ok()
}

pub(crate) fn is_pointer(text: &str) -> bool {
    text.is_empty() || text.starts_with('/')
}

/// Sorts the members of objects by name, even if another crate enables the feature `preserve_order`
/// of `serde_json`.
fn sorted(mut json: Value) -> Value {
    json.sort_all_objects();
    json
}

/// Fingerprint of the bytes of a body, without the boundary of a multipart form.
fn of_bytes(parts: &Parts, query: &str, body: &[u8]) -> Fingerprint {
    let Some(pieces) = multipart::parts(&parts.headers, body) else {
        return of(b"bytes", query, body);
    };
    let mut text = Vec::with_capacity(body.len());
    for piece in pieces {
        text.extend(length(piece));
        text.extend(piece);
    }
    of(b"multipart", query, &text)
}

/// Fingerprint of length-prefixed parts, so that none runs into the next.
fn of(kind: &[u8], query: &str, body: &[u8]) -> Fingerprint {
    let query = query.as_bytes();
    Fingerprint::of_parts([&length(kind)[..], kind, &length(query)[..], query, body])
}

fn length(part: &[u8]) -> [u8; 8] {
    (part.len() as u64).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn same(payload: &Payload, one: (&str, &str), two: (&str, &str)) -> bool {
        let (parts, ()) = Request::new(()).into_parts();
        let of = |(query, body): (&str, &str)| payload.fingerprint(&parts, query, body.as_bytes());
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
    fn a_missing_member_is_a_value_of_its_own_and_if_all_are_missing_bytes_count() {
        let both = &Payload::Members(vec!["/a".to_owned(), "/b".to_owned()]);
        assert!(same(both, ("", r#"{"a":1,"n":1}"#), ("q", r#"{"a":1,"n":2}"#)));
        assert!(!same(both, ("", r#"{"a":1}"#), ("", r#"{"a":1,"b":null}"#)));
        assert!(!same(both, ("", r#"{"a":1}"#), ("", r#"{"b":1}"#)));
        for payload in [both, &Payload::Members(Vec::new())] {
            assert!(same(payload, ("q", r#"{"n":1}"#), ("q", r#"{"n":1}"#)));
            assert!(!same(payload, ("", r#"{"n":1}"#), ("", r#"{"n":2}"#)));
            assert!(!same(payload, ("", r#"{"n":1}"#), ("q", r#"{"n":1}"#)));
        }
    }

    /// The fingerprints in the records of earlier versions must match those of repeats.
    #[test]
    fn fingerprints_of_bytes_are_frozen() {
        let (parts, ()) = Request::new(()).into_parts();
        let fingerprint = Payload::Bytes.fingerprint(&parts, "a=1", b"x").unwrap();
        assert_eq!(format!("{fingerprint:?}"), "Fingerprint(0354edf9fad6b18b25e87baf6015f849)");
    }

    #[test]
    fn parts_of_a_form_do_not_run_into_each_other() {
        let request = Request::builder().header("content-type", "multipart/form-data; boundary=b");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let of = |body: &str| Payload::Bytes.fingerprint(&parts, "", body.as_bytes());
        let one = of("--b\r\na\r\n--b\r\nbc\r\n--b--");
        assert_eq!(one, of("--b  \r\na\r\n--b\r\nbc\r\n--b--"));
        for other in [
            "--b\r\nab\r\n--b\r\nc\r\n--b--",
            "--b\r\nabc\r\n--b--",
            "a\r\n--b\r\nbc\r\n--b--",
            "--b\r\na\r\n--b--bc",
        ] {
            assert_ne!(one, of(other), "{other:?}");
        }
    }

    #[test]
    fn a_function_decides_alone() {
        let first = &Payload::by(|_, body| body[..1].to_vec());
        assert!(same(first, ("", "ab"), ("q", "ac")));
        assert!(!same(first, ("", "ab"), ("", "bb")));
        assert_eq!(first, &first.clone());
        assert_ne!(first, &Payload::by(|_, body| body[..1].to_vec()));
    }

    #[test]
    fn what_is_not_a_pointer_does_not_make_all_bodies_one() {
        let amount = &Payload::Members(vec!["amount".to_owned()]);
        assert!(same(amount, ("", r#"{"amount":1}"#), ("", r#"{"amount":1}"#)));
        assert!(!same(amount, ("", r#"{"amount":1}"#), ("", r#"{"amount":2}"#)));
    }
}
