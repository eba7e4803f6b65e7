//! Header lists: media types of bodies, and headers that are not replayed.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Headers that belong to one connection or to the framing of messages on it.
const OF_CONNECTION: &[&str] = &[
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers that belong to one exchange or one person.
const NOT_REPLAYED: &[&str] = &[
    "age",
    "authentication-info",
    "authorization",
    "b3",
    "baggage",
    "cf-ray",
    "correlation-id",
    "csrf-token",
    "date",
    "elastic-apm-traceparent",
    "fly-request-id",
    "idempotent-stored",
    "newrelic",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-status",
    "request-id",
    "sentry-trace",
    "server-timing",
    "set-cookie",
    "set-cookie2",
    "traceparent",
    "traceresponse",
    "tracestate",
    "uber-trace-id",
    "via",
    "www-authenticate",
    "x-amz-cf-id",
    "x-amz-id-2",
    "x-amz-request-id",
    "x-amzn-requestid",
    "x-amzn-trace-id",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-csrf-token",
    "x-csrftoken",
    "x-envoy-upstream-service-time",
    "x-ms-request-id",
    "x-request-id",
    "x-response-time",
    "x-runtime",
    "x-span-id",
    "x-trace-id",
    "x-vercel-id",
    "x-xsrf-token",
    "xsrf-token",
];

const NOT_REPLAYED_PREFIXES: &[&str] =
    &["ratelimit", "uberctx-", "x-b3-", "x-datadog-", "x-rate-limit", "x-ratelimit"];

/// Exceptions of a layer from the lists above.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeaderChoices {
    replayed: Vec<HeaderName>,
    not_replayed: Vec<HeaderName>,
}

impl HeaderChoices {
    pub(crate) fn replay(&mut self, name: HeaderName) {
        self.not_replayed.retain(|other| *other != name);
        self.replayed.push(name);
    }

    pub(crate) fn never_replay(&mut self, name: HeaderName) {
        self.replayed.retain(|other| *other != name);
        self.not_replayed.push(name);
    }

    /// Describes a chosen header that would not be replayed.
    pub(crate) fn mistake(&self) -> Option<String> {
        let name = self.replayed.iter().find(|name| is_of_connection(name))?;
        Some(format!(
            "`replay_header` cannot be `{name}`; accepted: headers that do not belong to a connection"
        ))
    }
}

fn is_of_connection(name: &HeaderName) -> bool {
    OF_CONNECTION.binary_search(&name.as_str()).is_ok()
}

fn is_of_one_exchange(name: &HeaderName) -> bool {
    let name = name.as_str();
    NOT_REPLAYED.binary_search(&name).is_ok()
        || NOT_REPLAYED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The headers that are replayed, in their order.
pub(crate) fn replayed<'a>(
    headers: &'a HeaderMap,
    choices: Option<&HeaderChoices>,
) -> impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)> {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    headers.iter().filter(move |(name, _)| {
        let is_replayed = match choices {
            Some(choices) if choices.replayed.contains(name) => true,
            Some(choices) if choices.not_replayed.contains(name) => false,
            _ => !is_of_one_exchange(name),
        };
        is_replayed && !is_of_connection(name) && !named.iter().any(|named| named == name.as_str())
    })
}

/// Media types of streams.
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

/// Returns `true` if a body has this media type, ignoring case and parameters.
pub(crate) fn has_media_type(headers: &HeaderMap, wanted: &str) -> bool {
    media_type(headers).is_some_and(|it| it.eq_ignore_ascii_case(wanted.as_bytes()))
}

/// Returns `true` if the media type of a body is that of a stream.
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
    fn the_lists_are_sorted() {
        assert!(NOT_REPLAYED.is_sorted() && OF_CONNECTION.is_sorted());
    }

    fn kept(headers: &HeaderMap, choices: Option<&HeaderChoices>) -> Vec<(String, String)> {
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let kept = replayed(headers, choices);
        kept.map(|(name, value)| (name.to_string(), text(value))).collect()
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
        let expected = [("location", "/o/1"), ("link", "a"), ("link", "b")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(kept(&headers, None), expected);
    }

    #[test]
    fn a_layer_can_choose_but_not_what_belongs_to_a_connection() {
        let all = ["link", "set-cookie", "x-hop", "content-length"];
        let value = HeaderValue::from_static("1");
        let mut headers: HeaderMap =
            all.iter().map(|name| (HeaderName::from_static(name), value.clone())).collect();
        headers.insert(header::CONNECTION, HeaderValue::from_static("x-hop"));
        let mut choices = HeaderChoices::default();
        choices.never_replay(header::LINK);
        choices.replay(header::SET_COOKIE);
        choices.replay(HeaderName::from_static("x-hop"));
        assert_eq!(choices.mistake(), None);
        choices.replay(header::CONTENT_LENGTH);
        assert!(choices.mistake().is_some());
        let name = |(name, _): (String, String)| name;
        let names: Vec<_> = kept(&headers, Some(&choices)).into_iter().map(name).collect();
        assert_eq!(names, ["set-cookie"]);
        choices.replay(header::LINK);
        assert_eq!(kept(&headers, Some(&choices)).len(), 2);
    }
}
