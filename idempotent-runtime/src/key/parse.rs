//! Record keys read back from their text: the parts that a key was composed of.
//!
//! Composing is injective and keeps the text of every part, so a text is a key if it splits into
//! parts that could have been composed. A key keeps its text as it is; the parts borrow from it.

use super::record_key::{HASH_OVER_BYTES, HASHED, RecordKey, hash_tag};
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;

/// The parts of a record key, as they are written in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordParts<'a> {
    pub(crate) hash_tag: Option<&'a str>,
    pub(crate) prefix: &'a str,
    pub(crate) operation: &'a str,
    pub(crate) ambient: &'a str,
    pub(crate) own: &'a str,
    pub(crate) key: &'a str,
}

impl RecordParts<'_> {
    /// The name of the operation, without the escapes of the key.
    pub(crate) fn operation_name(&self) -> Cow<'_, str> {
        if !self.operation.contains('\\') {
            return Cow::Borrowed(self.operation);
        }
        let mut name = String::with_capacity(self.operation.len());
        let mut characters = self.operation.chars();
        while let Some(character) = characters.next() {
            name.extend(if character == '\\' { characters.next() } else { Some(character) });
        }
        Cow::Owned(name)
    }
}

/// A text that is not the name of a record.
///
/// ```
/// use idempotent_runtime::key::RecordKey;
///
/// let error = "orders.create|42".parse::<RecordKey>().unwrap_err();
/// assert!(error.to_string().starts_with("not a record key: it has no key after its operation"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRecordKey(&'static str);

impl fmt::Display for InvalidRecordKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "not a record key: {}\nhelp: prefix|operation|key or \
             prefix|operation|ambient scope|own scope|key, as a scan lists it",
            self.0
        )
    }
}

impl StdError for InvalidRecordKey {}

impl FromStr for RecordKey {
    type Err = InvalidRecordKey;

    /// Reads a key from its text, as [`as_str`](RecordKey::as_str) gives it. A key of which long
    /// parts are hashed is read like any other.
    ///
    /// ```
    /// use idempotent_runtime::Idempotency;
    /// use idempotent_runtime::key::RecordKey;
    ///
    /// let idem = Idempotency::in_memory()?;
    /// let key = idem.operation("orders.create").key("4|2").hash_tag("acme").record_key()?;
    /// assert_eq!(key.as_str(), r#"{acme}idempotent:token:|orders.create|"4|2""#);
    /// assert_eq!(key.as_str().parse::<RecordKey>()?, key);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, InvalidRecordKey> {
        parts(text)?;
        Ok(Self::from(text))
    }
}

impl RecordKey {
    /// The parts that this key was composed of.
    pub(crate) fn parts(&self) -> Result<RecordParts<'_>, InvalidRecordKey> {
        parts(self.as_str())
    }

    /// The name of the operation, for operators who inspect a store. Empty if the text is not one that
    /// could be [parsed](#impl-FromStr-for-RecordKey).
    ///
    /// ```
    /// use idempotent_runtime::key::RecordKey;
    ///
    /// let key: RecordKey = "p:|orders.create|42".parse()?;
    /// assert_eq!((&*key.operation(), key.business_key()), ("orders.create", "42"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn operation(&self) -> Cow<'_, str> {
        match self.parts() {
            Ok(parts) if parts.operation.contains('\\') => {
                Cow::Owned(parts.operation_name().into_owned())
            }
            Ok(parts) => Cow::Borrowed(parts.operation),
            Err(_) => Cow::Borrowed(""),
        }
    }

    /// The function's own key, as it is encoded in this one. The whole text if it is not one that
    /// could be [parsed](#impl-FromStr-for-RecordKey).
    pub fn business_key(&self) -> &str {
        self.parts().map_or(self.as_str(), |parts| parts.key)
    }
}

fn parts(text: &str) -> Result<RecordParts<'_>, InvalidRecordKey> {
    let Some(tag) = hash_tag(text) else { return untagged(text) };
    let rest = &text[tag.len() + 2..];
    let tagged = untagged(rest).map(|parts| RecordParts { hash_tag: Some(tag), ..parts });
    // A prefix may begin with a brace, which then looks like a tag.
    tagged.or_else(|error| untagged(text).map_err(|_| error))
}

fn untagged(text: &str) -> Result<RecordParts<'_>, InvalidRecordKey> {
    let no_operation = InvalidRecordKey("it has no operation after its prefix");
    let no_key = InvalidRecordKey("it has no key after its operation");
    let (prefix, rest) = name(text)?.ok_or(no_operation)?;
    let (operation, rest) = name(rest)?.ok_or(no_key.clone())?;
    let (first, rest) = part(rest)?;
    let (ambient, own, key) = match rest {
        None => ("", "", first),
        Some(rest) => match part(rest)? {
            (_, None) => return Err(InvalidRecordKey("it has one scope where there are two")),
            (second, Some(rest)) => match part(rest)? {
                (third, None) => (first, second, third),
                (_, Some(_)) => return Err(InvalidRecordKey("it has too many parts")),
            },
        },
    };
    if key.is_empty() {
        return Err(no_key);
    }
    if rest.is_some() && ambient.is_empty() && own.is_empty() {
        return Err(InvalidRecordKey("both of its scopes are empty"));
    }
    Ok(RecordParts { hash_tag: None, prefix, operation, ambient, own, key })
}

/// A prefix or an operation, and the text after the bar that ends it.
fn name(text: &str) -> Result<Option<(&str, &str)>, InvalidRecordKey> {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'|' => return Ok(Some((&text[..at], &text[at + 1..]))),
            b'\\' if !matches!(bytes.next(), Some((_, b'|' | b'\\'))) => {
                let text = "a backslash in its prefix or operation is not doubled";
                return Err(InvalidRecordKey(text));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// An encoded scope or key, and the text after the bar that ends it, if one does.
fn part(text: &str) -> Result<(&str, Option<&str>), InvalidRecordKey> {
    let mut quoted = false;
    let mut bytes = text.bytes().enumerate();
    let mut end = text.len();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'|' if !quoted => {
                end = at;
                break;
            }
            b'"' => quoted = !quoted,
            b'\\' if bytes.next().is_none() => {
                return Err(InvalidRecordKey("it ends with a backslash"));
            }
            0..=0x1f | 0x7f => return Err(InvalidRecordKey("it holds a control character")),
            _ => {}
        }
    }
    if quoted {
        return Err(InvalidRecordKey("a quote is not closed"));
    }
    let part = &text[..end];
    if part.len() > HASH_OVER_BYTES {
        return Err(InvalidRecordKey("a part is so long that it would be hashed"));
    }
    // A template may begin like a hash, and has braces.
    if let Some(digits) = part.strip_prefix(HASHED)
        && !part.contains('{')
        && !is_hash(digits)
    {
        return Err(InvalidRecordKey("a hash is not 64 hexadecimal digits"));
    }
    Ok((part, text.get(end + 1..)))
}

fn is_hash(digits: &str) -> bool {
    digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Encoded, Parts, Scope};
    use proptest::prelude::*;

    #[test]
    fn a_key_is_read_back_in_its_parts() {
        let key: RecordKey = r#"{t|1}p\|:|a\\b\|c|"x|y"||("é",4)"#.parse().unwrap();
        let parts = key.parts().unwrap();
        assert_eq!((parts.hash_tag, parts.prefix), (Some("t|1"), r"p\|:"));
        assert_eq!(parts.operation_name(), r"a\b|c");
        assert_eq!((parts.ambient, parts.own, parts.key), (r#""x|y""#, "", r#"("é",4)"#));
    }

    #[test]
    fn bad_texts_are_refused_and_say_why() {
        let long = format!("p|o|{}", "x".repeat(513));
        let short_hash = format!("p|o|#sha256:{}", "a".repeat(63));
        for (text, why) in [
            ("", "it has no operation after its prefix"),
            ("42", "it has no operation after its prefix"),
            ("p|o", "it has no key after its operation"),
            ("p|o|", "it has no key after its operation"),
            ("{t}p|o", "it has no key after its operation"),
            ("p|o|1|2", "it has one scope where there are two"),
            ("p|o|||2", "both of its scopes are empty"),
            ("p|o|1|2|", "it has no key after its operation"),
            ("p|o|1|2|3|4", "it has too many parts"),
            ("p\\x|o|1", "a backslash in its prefix or operation is not doubled"),
            ("p|o|\"a", "a quote is not closed"),
            ("p|o|a\\", "it ends with a backslash"),
            ("p|o|42\n", "it holds a control character"),
            (&*long, "a part is so long that it would be hashed"),
            (&*short_hash, "a hash is not 64 hexadecimal digits"),
        ] {
            assert_eq!(text.parse::<RecordKey>(), Err(InvalidRecordKey(why)), "{text}");
        }
        let error = "42".parse::<RecordKey>().unwrap_err().to_string();
        assert!(error.contains("\nhelp: prefix|operation|key"), "{error}");
    }

    /// An encoded part of any form: text, number, tuple, template, and one so long that it is hashed.
    fn encoded() -> impl Strategy<Value = Encoded> {
        prop_oneof![
            ".*".prop_map(|text| Encoded::of(text.as_str())),
            r#"[a|"{}\\#]{0,8}"#.prop_map(|text| Encoded::of(text.as_str())),
            any::<i64>().prop_map(|number| Encoded::of(&number)),
            (".*", any::<u8>()).prop_map(|(text, number)| Encoded::of(&(text, number))),
            (".*", r#"[a|"{}\\#]{0,8}"#, ".*").prop_map(|(a, b, c)| Parts::template()
                .text(&a)
                .part(&b)
                .text(&c)
                .finish()),
            Just(Parts::template().text("#sha256:").finish()),
            (500_usize..600).prop_map(|length| Encoded::of("|".repeat(length).as_str())),
        ]
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof![".*", r#"[a|"{}\\]{0,6}"#]
    }

    proptest! {
        #[test]
        fn every_key_that_can_be_composed_comes_back(
            prefix in name(),
            operation in name(),
            ambient in proptest::option::of(encoded()),
            own in proptest::option::of(encoded()),
            key in encoded(),
            tag in proptest::option::of(name()),
        ) {
            let scope = Scope {
                ambient: ambient.as_ref().map_or("", Encoded::as_str),
                own: own.as_ref().map_or("", Encoded::as_str),
            };
            let composed = RecordKey::compose(&prefix, &operation, scope, key.as_str()).unwrap();
            let tagged = tag.and_then(|tag| composed.with_hash_tag(&tag));
            for key in [Some(composed), tagged].into_iter().flatten() {
                prop_assert_eq!(key.as_str().parse(), Ok(key.clone()));
                let parts = key.parts().unwrap();
                // A brace at its beginning makes a prefix look like a tag.
                if !prefix.starts_with('{') {
                    prop_assert_eq!(parts.operation_name(), operation.as_str());
                }
            }
        }
    }
}
