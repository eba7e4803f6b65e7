//! The key of a request: its sources and its syntax.

mod parameters;
mod source;
mod syntax;

pub use source::KeySource;
#[cfg(feature = "utoipa")]
pub(crate) use syntax::MAX_LENGTH;
pub(crate) use syntax::{Syntax, checked, parse};

use http::HeaderName;
use http::request::Parts;
use idempotent_runtime::problem::{Problem, ProblemType};
use std::borrow::Cow;
use std::fmt;

/// The places where keys are looked for.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub(crate) headers: Vec<HeaderName>,
    pub(crate) query: Option<String>,
    /// Sources that need the body.
    pub(crate) body: Vec<KeySource>,
    pub(crate) syntax: Syntax,
}

impl Sources {
    pub(crate) fn standard() -> Self {
        let names = ["idempotency-key", "idempotent-token", "x-idempotency-key"];
        Self {
            headers: names.map(HeaderName::from_static).to_vec(),
            query: None,
            body: Vec::new(),
            syntax: Syntax::Lenient,
        }
    }

    /// Returns `true` if no request can have a key.
    pub(crate) fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.query.is_none() && self.body.is_empty()
    }

    /// Returns `true` if the body is needed to find the key.
    pub(crate) fn reads_body(&self) -> bool {
        !self.body.is_empty()
    }

    /// The key of a request; `None` if it has none. Sources that disagree are an error, and so is a
    /// malformed key, which never counts as no key.
    ///
    /// `body` is empty unless [`reads_body`](Self::reads_body) is true.
    pub(crate) fn key(&self, parts: &Parts, body: &[u8]) -> Result<Option<String>, Problem> {
        let mut key: Option<String> = None;
        let mut add = |found: String| match &key {
            Some(key) if *key != found => Err(invalid("the request carries two different keys")),
            _ => {
                key = Some(found);
                Ok(())
            }
        };
        // Header lines of the same name follow each other.
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
        for source in &self.body {
            if let Some(found) = source.key(parts, body)? {
                add(checked(found)?)?;
            }
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

    /// The query without the key, since a repeat may carry the key elsewhere.
    pub(crate) fn query_without_key<'a>(&self, parts: &'a Parts) -> Cow<'a, str> {
        let query = parts.uri.query().unwrap_or_default();
        let Some(wanted) = &self.query else { return Cow::Borrowed(query) };
        let is_key = |pair: &&str| {
            form_urlencoded::parse(pair.as_bytes()).next().is_some_and(|(name, _)| name == *wanted)
        };
        let others: Vec<&str> = query.split('&').filter(|pair| !is_key(pair)).collect();
        Cow::Owned(others.join("&"))
    }
}

/// Describes where a client can put its key.
impl fmt::Display for Sources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.headers.first(), &self.query, self.body.first()) {
            (Some(header), _, _) => write!(formatter, "the header {header}"),
            (None, Some(name), _) => write!(formatter, "the parameter {name} of the query"),
            (None, None, Some(source)) => source.fmt(formatter),
            (None, None, None) => formatter.write_str("a key"),
        }
    }
}

pub(crate) fn invalid(detail: &str) -> Problem {
    Problem::new(ProblemType::INVALID_KEY, format!("{detail} (it was not handled)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn parts(build: impl FnOnce(http::request::Builder) -> http::request::Builder) -> Parts {
        build(Request::builder()).body(()).unwrap().into_parts().0
    }

    #[test]
    fn aliases_that_agree_are_one_key_and_others_are_refused() {
        let sources = Sources::standard();
        let key = |parts: &Parts| sources.key(parts, b"");
        let agree =
            parts(|it| it.header("idempotency-key", "\"k\"").header("idempotent-token", "k"));
        assert_eq!(key(&agree).unwrap().as_deref(), Some("k"));
        let differ = parts(|it| it.header("idempotency-key", "a").header("idempotent-token", "b"));
        assert!(key(&differ).is_err());
        let twice = parts(|it| it.header("idempotency-key", "a").header("idempotency-key", "a"));
        assert!(key(&twice).is_err());
        assert_eq!(key(&parts(|it| it)).unwrap(), None);
    }

    #[test]
    fn the_query_counts_only_where_it_is_switched_on() {
        let mut sources = Sources::standard();
        let request = parts(|it| it.uri("/o?token=a%20b&x=1"));
        assert_eq!(sources.key(&request, b"").unwrap(), None);
        assert_eq!(sources.query_without_key(&request), "token=a%20b&x=1");
        sources.query = Some("token".to_owned());
        let key = |parts: &Parts| sources.key(parts, b"");
        assert_eq!(key(&request).unwrap().as_deref(), Some("a b"));
        assert!(key(&parts(|it| it.uri("/o?token=a&token=a"))).is_err());
        assert!(key(&parts(|it| it.uri("/o?token="))).is_err());
    }

    #[test]
    fn the_key_is_taken_out_of_the_query_and_nothing_else_is() {
        let sources = Sources { query: Some("to ken".to_owned()), ..Sources::standard() };
        let without = |uri: &str| sources.query_without_key(&parts(|it| it.uri(uri))).into_owned();
        assert_eq!(without("/o"), "");
        assert_eq!(without("/o?to%20ken=k"), "");
        assert_eq!(without("/o?to+ken=k&x=%31&y"), "x=%31&y");
        assert_eq!(without("/o?x=1&to+ken=k"), "x=1");
        assert_eq!(without("/o?x=1&&to=k&token=k"), "x=1&&to=k&token=k");
    }
}
