//! Keys in request bodies, and keys that a function finds.

use super::invalid;
use crate::headers::has_media_type;
use crate::multipart;
use crate::payload::is_pointer;
use http::request::Parts;
use idempotent_runtime::problem::Problem;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

type Find = Arc<dyn Fn(&Parts, &[u8]) -> Option<String> + Send + Sync>;

/// A place where [`IdempotencyLayer::key_from`](crate::IdempotencyLayer::key_from) looks for the key,
/// beside headers and query.
///
/// Bodies are read whole, up to
/// [`max_request_bytes`](crate::IdempotencyLayer::max_request_bytes), before the key is looked for.
/// This applies to every guarded request of such a layer, even without a key, and even with
/// [`ambient_only`](crate::IdempotencyLayer::ambient_only).
///
/// ```
/// use idempotent_http::{IdempotencyLayer, KeySource};
/// use idempotent_runtime::Idempotency;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::in_memory()?;
/// let webhooks = IdempotencyLayer::new(&idem, "webhooks")
///     .headers([])
///     .key_from(KeySource::json_pointer("/event/id"))
///     .require_key()
///     .validate()?;
/// # drop(webhooks);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct KeySource(Kind);

#[derive(Clone)]
enum Kind {
    JsonPointer(String),
    FormField(String),
    By(Find),
}

impl KeySource {
    /// A member of a JSON body, by [JSON pointer](https://www.rfc-editor.org/rfc/rfc6901): `/id`,
    /// `/event/id`.
    ///
    /// The member is a string or an integer. A body that is not JSON, or in which the member is
    /// missing or null, has no key; any other value is refused (400). If a member occurs twice, the
    /// last one counts. The content type does not matter.
    pub fn json_pointer(pointer: impl Into<String>) -> Self {
        Self(Kind::JsonPointer(pointer.into()))
    }

    /// A field of a form, `application/x-www-form-urlencoded` or `multipart/form-data`.
    ///
    /// With a random value in a hidden field, a form that is sent twice gets the first answer
    /// twice.
    pub fn form_field(name: impl Into<String>) -> Self {
        Self(Kind::FormField(name.into()))
    }

    /// A function of the request's head and body. `None` is no key.
    ///
    /// It runs in the request's task before anything is handled, and must not block. If it panics, the
    /// request is answered with 500 and not handled.
    pub fn by(find: impl Fn(&Parts, &[u8]) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Kind::By(Arc::new(find)))
    }

    pub(super) fn key(&self, parts: &Parts, body: &[u8]) -> Result<Option<String>, Problem> {
        match &self.0 {
            Kind::JsonPointer(pointer) => in_json(body, pointer),
            Kind::FormField(name) => in_form(parts, body, name),
            Kind::By(find) => Ok(find(parts, body)),
        }
    }

    /// Describes why no request can have a key here, if that is so.
    pub(crate) fn mistake(&self) -> Option<String> {
        match &self.0 {
            Kind::JsonPointer(pointer) if !is_pointer(pointer) => Some(format!(
                "`json_pointer` cannot be {pointer:?}; accepted: a JSON pointer, such as \"/id\""
            )),
            Kind::FormField(name) if name.is_empty() => {
                Some("`form_field` cannot be empty; accepted: the name of a field".to_owned())
            }
            _ => None,
        }
    }
}

fn in_json(body: &[u8], pointer: &str) -> Result<Option<String>, Problem> {
    let Ok(json) = serde_json::from_slice::<Value>(body) else { return Ok(None) };
    match json.pointer(pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(key)) => Ok(Some(key.clone())),
        Some(Value::Number(key)) if key.is_u64() || key.is_i64() => Ok(Some(key.to_string())),
        Some(_) => Err(invalid("the key is neither a string nor an integer")),
    }
}

fn in_form(parts: &Parts, body: &[u8], wanted: &str) -> Result<Option<String>, Problem> {
    let mut found = if has_media_type(&parts.headers, "application/x-www-form-urlencoded") {
        let fields = form_urlencoded::parse(body).filter(|(name, _)| name == wanted);
        fields.map(|(_, value)| value.into_owned()).collect()
    } else {
        multipart::fields(&parts.headers, body, wanted)
    };
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(invalid("the key is given twice in the form")),
    }
}

/// Describes the source to a client.
impl fmt::Display for KeySource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::JsonPointer(pointer) => {
                write!(formatter, "the member {pointer} of the JSON body")
            }
            Kind::FormField(name) => write!(formatter, "the field {name} of the form"),
            Kind::By(_) => formatter.write_str("a key"),
        }
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::JsonPointer(pointer) => {
                formatter.debug_tuple("JsonPointer").field(pointer).finish()
            }
            Kind::FormField(name) => formatter.debug_tuple("FormField").field(name).finish(),
            Kind::By(_) => formatter.write_str("By(..)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn parts(content_type: &str) -> Parts {
        Request::builder().header("content-type", content_type).body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_member_of_json_is_a_key_if_it_is_text_or_a_whole_number() {
        let key = |body: &str| in_json(body.as_bytes(), "/event/id");
        assert_eq!(key(r#"{"event":{"id":"e-1"}}"#).unwrap().as_deref(), Some("e-1"));
        assert_eq!(key(r#"{"event":{"id":42}}"#).unwrap().as_deref(), Some("42"));
        for none in ["", "not json", "{}", r#"{"event":{"id":null}}"#, r#"{"id":"e-1"}"#] {
            assert_eq!(key(none).unwrap(), None, "{none}");
        }
        for bad in [r#"{"event":{"id":1.5}}"#, r#"{"event":{"id":true}}"#, r#"{"event":{"id":[]}}"#]
        {
            assert!(key(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_field_is_looked_for_in_forms_only() {
        const FORM: &str = "application/x-www-form-urlencoded";
        let key = |kind: &str, body: &str| in_form(&parts(kind), body.as_bytes(), "token");
        assert_eq!(key(FORM, "a=1&token=a+b%21").unwrap().as_deref(), Some("a b!"));
        assert_eq!(key(FORM, "a=1").unwrap(), None);
        assert_eq!(key("text/plain", "token=k").unwrap(), None);
        assert!(key(FORM, "token=k&token=k").is_err());
    }
}
