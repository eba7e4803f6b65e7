//! The key of a request: where it is looked for, and what it may look like.

use http::HeaderName;
use http::request::Parts;
use idempotent_runtime::problem::{Problem, ProblemType};
use std::fmt;

/// The longest key, in characters.
pub(crate) const MAX_LENGTH: usize = 255;

/// How strictly keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// A quoted string, as the draft standard says, or the bare text.
    Lenient,
    /// A quoted string.
    Strict,
}

/// Where keys are looked for.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub(crate) headers: Vec<HeaderName>,
    pub(crate) query: Option<String>,
    pub(crate) syntax: Syntax,
}

impl Sources {
    pub(crate) fn standard() -> Self {
        let names = ["idempotency-key", "idempotent-token", "x-idempotency-key"];
        Self {
            headers: names.map(HeaderName::from_static).to_vec(),
            query: None,
            syntax: Syntax::Lenient,
        }
    }

    /// The key of a request; `None` if it has none. Places that disagree are an error, and so is a
    /// key that cannot be read: it is never taken for none.
    pub(crate) fn key(&self, parts: &Parts) -> Result<Option<String>, Problem> {
        let mut key: Option<String> = None;
        let mut add = |found: String| match &key {
            Some(key) if *key != found => Err(invalid("the request carries two different keys")),
            _ => {
                key = Some(found);
                Ok(())
            }
        };
        // Lines of one name follow each other.
        let mut before = None;
        for (name, line) in parts.headers.iter().filter(|(name, _)| self.headers.contains(name)) {
            if before.replace(name) == Some(name) {
                return Err(invalid("the key is given in two header lines"));
            }
            add(parse(line.as_bytes(), self.syntax)?)?;
        }
        if let Some(found) = self.in_query(parts) {
            add(found?)?;
        }
        Ok(key)
    }

    fn in_query(&self, parts: &Parts) -> Option<Result<String, Problem>> {
        let (wanted, query) = (self.query.as_ref()?, parts.uri.query()?);
        let mut given = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == wanted);
        let (_, value) = given.next()?;
        Some(match given.next() {
            Some(_) => Err(invalid("the key is given twice in the query")),
            None => checked(value.into_owned()),
        })
    }
}

/// Where a client can put its key.
impl fmt::Display for Sources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.headers.first(), &self.query) {
            (Some(header), _) => write!(formatter, "the header {header}"),
            (None, Some(name)) => write!(formatter, "the parameter {name} of the query"),
            (None, None) => formatter.write_str("a key"),
        }
    }
}

/// Reads the value of a header.
pub(crate) fn parse(line: &[u8], syntax: Syntax) -> Result<String, Problem> {
    let text = std::str::from_utf8(line.trim_ascii()).map_err(|_| not_ascii())?;
    match (text.strip_prefix('"'), syntax) {
        (Some(rest), _) => quoted(rest),
        (None, Syntax::Strict) if !text.is_empty() => {
            Err(invalid("the key must be a quoted string"))
        }
        (None, _) => bare(text),
    }
}

/// The rest of a quoted string, and parameters, which mean nothing here.
fn quoted(rest: &str) -> Result<String, Problem> {
    let plain = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\'));
    let (plain, rest) = rest.split_at(plain.unwrap_or(rest.len()));
    let mut key = plain.to_owned();
    let mut characters = rest.chars();
    loop {
        match characters.next() {
            None => return Err(invalid("the quotes of the key are not closed")),
            Some('"') => break,
            Some('\\') => match characters.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => return Err(invalid("the key holds an escape that does not exist")),
            },
            Some(character) => key.push(character),
        }
    }
    let rest = characters.as_str().trim_start_matches([' ', '\t']);
    if !rest.is_empty() && (!rest.starts_with(';') || is_list(rest)) {
        return Err(invalid("more than one key is given"));
    }
    checked(key)
}

/// Whether parameters are followed by another member: a comma outside of quotes.
fn is_list(parameters: &str) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    parameters.chars().any(|character| {
        let was_escaped = std::mem::replace(&mut is_escaped, false);
        match character {
            '"' if !was_escaped => is_quoted = !is_quoted,
            '\\' if is_quoted && !was_escaped => is_escaped = true,
            _ => {}
        }
        character == ',' && !is_quoted
    })
}

fn bare(text: &str) -> Result<String, Problem> {
    if text.contains([',', ' ', '\t']) {
        return Err(invalid("more than one key is given"));
    }
    if text.contains(['"', ';']) {
        return Err(invalid("a key with quotes or semicolons must be a quoted string"));
    }
    checked(text.to_owned())
}

pub(crate) fn checked(key: String) -> Result<String, Problem> {
    if key.is_empty() {
        return Err(invalid("the key is empty"));
    }
    if !key.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
        return Err(not_ascii());
    }
    if key.len() > MAX_LENGTH {
        return Err(invalid("the key is longer than 255 characters"));
    }
    Ok(key)
}

fn not_ascii() -> Problem {
    invalid("the key holds characters that are not printable ASCII")
}

fn invalid(detail: &str) -> Problem {
    Problem::new(ProblemType::InvalidKey, format!("{detail} (it was not handled)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn lenient(line: &str) -> Option<String> {
        parse(line.as_bytes(), Syntax::Lenient).ok()
    }

    #[test]
    fn quoted_bare_and_with_parameters_are_one_key() {
        for line in ["\"k\"", "k", "\"k\";p=1", "  \"k\" ; p=1", "\tk ", r#""k";p="a, \", b""#] {
            assert_eq!(lenient(line).as_deref(), Some("k"), "{line}");
        }
        assert_eq!(lenient(r#""a\"b\\c""#).as_deref(), Some(r#"a"b\c"#));
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        let long = "x".repeat(256);
        let bad = [
            "",
            "\"\"",
            "  ",
            "\"open",
            r#""bad\escape""#,
            "a, b",
            "a b",
            "\"a\", \"b\"",
            "\"a\";p=1, \"b\"",
            r#""a";p="\"", "b""#,
            "\"a\" b",
            "k;p=1",
            "schlüssel",
            "\"schlüssel\"",
            &long,
        ];
        for line in bad {
            assert_eq!(lenient(line), None, "{line}");
        }
        assert_eq!(lenient(&"x".repeat(255)).map(|key| key.len()), Some(255));
        assert!(parse(b"\xff\xfe", Syntax::Lenient).is_err());
        assert!(parse(b"a\x07b", Syntax::Lenient).is_err());
    }

    #[test]
    fn strict_keys_are_quoted() {
        assert!(parse(b"k", Syntax::Strict).is_err());
        assert_eq!(parse(b"\"k\"", Syntax::Strict).unwrap(), "k");
    }

    fn parts(build: impl FnOnce(http::request::Builder) -> http::request::Builder) -> Parts {
        build(Request::builder()).body(()).unwrap().into_parts().0
    }

    #[test]
    fn aliases_that_agree_are_one_key_and_others_are_refused() {
        let sources = Sources::standard();
        let agree =
            parts(|it| it.header("idempotency-key", "\"k\"").header("idempotent-token", "k"));
        assert_eq!(sources.key(&agree).unwrap().as_deref(), Some("k"));
        let differ = parts(|it| it.header("idempotency-key", "a").header("idempotent-token", "b"));
        assert!(sources.key(&differ).is_err());
        let twice = parts(|it| it.header("idempotency-key", "a").header("idempotency-key", "a"));
        assert!(sources.key(&twice).is_err());
        assert_eq!(sources.key(&parts(|it| it)).unwrap(), None);
    }

    #[test]
    fn the_query_counts_only_where_it_is_switched_on() {
        let mut sources = Sources::standard();
        let request = parts(|it| it.uri("/o?token=a%20b&x=1"));
        assert_eq!(sources.key(&request).unwrap(), None);
        sources.query = Some("token".to_owned());
        assert_eq!(sources.key(&request).unwrap().as_deref(), Some("a b"));
        assert!(sources.key(&parts(|it| it.uri("/o?token=a&token=a"))).is_err());
        assert!(sources.key(&parts(|it| it.uri("/o?token="))).is_err());
    }
}
