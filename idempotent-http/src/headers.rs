//! What headers say: the type of a body, and which of them are replayed.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Headers that belong to one exchange, one connection or one person.
const NOT_REPLAYED: &[&str] = &[
    "authentication-info",
    "b3",
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-connection",
    "request-id",
    "server-timing",
    "set-cookie",
    "set-cookie2",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
    "x-amzn-requestid",
    "x-amzn-trace-id",
    "x-correlation-id",
    "x-request-id",
    "x-trace-id",
];

const NOT_REPLAYED_PREFIXES: &[&str] = &["ratelimit", "x-ratelimit", "x-rate-limit", "x-b3-"];

/// The headers that are replayed, in their order.
pub(crate) fn replayed(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    headers.iter().filter(move |(name, _)| {
        let name = name.as_str();
        NOT_REPLAYED.binary_search(&name).is_err()
            && !NOT_REPLAYED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            && !named.iter().any(|named| named == name)
    })
}

/// Whether a body has this media type, which is the same in any case and with any parameters.
pub(crate) fn has_media_type(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let media_type = value.and_then(|value| value.split(|byte| *byte == b';').next());
    media_type.is_some_and(|it| it.trim_ascii().eq_ignore_ascii_case(wanted.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(NOT_REPLAYED.is_sorted());
    }

    #[test]
    fn what_belongs_to_one_exchange_is_left_out() {
        let mut headers = HeaderMap::new();
        let all = [
            ("location", "/o/1"),
            ("link", "a"),
            ("link", "b"),
            ("set-cookie", "s=1"),
            ("www-authenticate", "Basic"),
            ("date", "now"),
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("x-request-id", "7"),
            ("x-ratelimit-remaining", "3"),
            ("ratelimit", "x"),
            ("traceparent", "00"),
        ];
        for (name, value) in all {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let kept: Vec<_> = replayed(&headers)
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(kept, [("location", "/o/1"), ("link", "a"), ("link", "b")]);
    }
}
