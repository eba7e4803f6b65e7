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

/// Media types of bodies that are made and read piece by piece.
const STREAMS: &[&str] = &[
    "application/json-seq",
    "application/jsonl",
    "application/ndjson",
    "application/stream+json",
    "application/x-ndjson",
    "multipart/x-mixed-replace",
    "text/event-stream",
];

/// The media type of a body, without its parameters.
fn media_type(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::CONTENT_TYPE)?.as_bytes();
    value.split(|byte| *byte == b';').next().map(<[u8]>::trim_ascii)
}

/// `true` if a body has this media type, which is the same in any case and with any parameters.
pub(crate) fn has_media_type(headers: &HeaderMap, wanted: &str) -> bool {
    media_type(headers).is_some_and(|it| it.eq_ignore_ascii_case(wanted.as_bytes()))
}

/// `true` if the media type of a body says that it is read piece by piece.
pub(crate) fn is_stream(headers: &HeaderMap) -> bool {
    STREAMS.iter().any(|wanted| has_media_type(headers, wanted))
}

/// The kinds of bodies that carry a call of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grpc {
    /// Over HTTP/2: the status of the call is in the head or in the trailers.
    Native,
    /// For browsers: the status of the call is in the body.
    Web,
}

/// The kind of gRPC that a body carries, if it does.
pub(crate) fn grpc(headers: &HeaderMap) -> Option<Grpc> {
    const NATIVE: &[u8] = b"application/grpc";
    let media_type = media_type(headers)?;
    let (start, rest) = media_type.split_at_checked(NATIVE.len())?;
    match rest.first() {
        _ if !start.eq_ignore_ascii_case(NATIVE) => None,
        None | Some(b'+') => Some(Grpc::Native),
        Some(_) => Some(Grpc::Web),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_type(media_type: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))])
    }

    #[test]
    fn streams_are_known_by_their_media_type() {
        for stream in STREAMS.iter().chain(&["Text/Event-Stream; charset=utf-8"]) {
            assert!(is_stream(&of_type(stream)), "{stream}");
        }
        for other in ["application/json", "application/octet-stream", "text/event-stream-2"] {
            assert!(!is_stream(&of_type(other)), "{other}");
        }
    }

    #[test]
    fn grpc_is_known_by_its_media_type() {
        for native in ["application/grpc", "application/grpc+proto", "Application/gRPC+json;a=b"] {
            assert_eq!(grpc(&of_type(native)), Some(Grpc::Native), "{native}");
        }
        for web in ["application/grpc-web", "application/grpc-web-text+proto"] {
            assert_eq!(grpc(&of_type(web)), Some(Grpc::Web), "{web}");
        }
        for other in ["application/json", "application/grp", "text/plain"] {
            assert_eq!(grpc(&of_type(other)), None, "{other}");
        }
    }

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
