//! A whole response: as its first caller gets it, and as it is stored and replayed.

use crate::body::ResponseBody;
use crate::headers::replayed;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use idempotent_runtime::codec::{CodecError, StoredBytes};

/// Says that a response is a replay.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Says that a response was not stored, and cannot be replayed.
pub(crate) const STORED: HeaderName = HeaderName::from_static("idempotent-stored");

/// The first byte of every stored response.
const VERSION: u8 = 1;

/// A response that is done.
#[derive(Debug)]
pub(crate) enum Exchange<B> {
    /// Read whole; it is stored.
    Whole { response: Response<Bytes>, trailers: Option<HeaderMap> },
    /// It flows, and is not stored; that it happened is.
    Live(Response<ResponseBody<B>>, Unstored),
}

/// The reason for which a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unstored {
    /// It is meant to flow.
    Stream,
    /// It is larger than what is stored.
    TooLarge,
}

impl<B> Exchange<B> {
    /// The response for whoever asked first.
    pub(crate) fn into_first(self) -> Response<ResponseBody<B>> {
        match self {
            Self::Whole { response, trailers } => {
                response.map(|body| ResponseBody::whole(body, trailers))
            }
            Self::Live(mut response, _) => {
                response.headers_mut().insert(STORED, HeaderValue::from_static("false"));
                response
            }
        }
    }

    /// The same response, which is too large to be stored.
    pub(crate) fn into_live(self) -> Self {
        match self {
            Self::Whole { response, trailers } => {
                let response = response.map(|body| ResponseBody::whole(body, trailers));
                Self::Live(response, Unstored::TooLarge)
            }
            live => live,
        }
    }

    /// Whether it fits into `most` bytes in the store, the mark of their format included.
    pub(crate) fn fits(&self, most: usize) -> bool {
        let Self::Whole { response, .. } = self else { return false };
        let header = |(name, value): (&HeaderName, &HeaderValue)| {
            8 + name.as_str().len() + value.as_bytes().len()
        };
        let with = |headers: usize| 6 + headers + response.body().len() <= most;
        // Which of the headers count is asked only if not all of them fit.
        with(response.headers().iter().map(header).sum())
            || with(replayed(response.headers()).map(header).sum())
    }

    /// The response for everybody else.
    pub(crate) fn into_replay(self) -> Response<ResponseBody<B>> {
        let mut response = self.into_first();
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        response
    }
}

/// Version, status, number of headers, headers, body. Numbers are big endian; names and values have
/// their length before them. Trailers are not kept.
impl<B> StoredBytes for Exchange<B> {
    fn write_to(&self, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        let response = match self {
            Self::Whole { response, .. } => response,
            Self::Live(_, Unstored::Stream) => return Err(CodecError::new("it is a stream")),
            Self::Live(_, Unstored::TooLarge) => {
                return Err(CodecError::new("the response is larger than what is stored"));
            }
        };
        if response.status().is_informational() {
            return Err(CodecError::new("an interim response cannot be replayed"));
        }
        bytes.push(VERSION);
        bytes.extend(response.status().as_u16().to_be_bytes());
        let count_at = bytes.len();
        bytes.extend([0; 2]);
        let mut count = 0_u16;
        for (name, value) in replayed(response.headers()) {
            count = count.checked_add(1).ok_or_else(too_many)?;
            for part in [name.as_str().as_bytes(), value.as_bytes()] {
                let length = u32::try_from(part.len()).map_err(|_| too_many())?;
                bytes.extend(length.to_be_bytes());
                bytes.extend(part);
            }
        }
        bytes[count_at..count_at + 2].copy_from_slice(&count.to_be_bytes());
        bytes.extend(response.body());
        Ok(())
    }

    fn has_bytes(&self) -> bool {
        !matches!(self, Self::Live(_, Unstored::Stream))
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader(bytes);
        match reader.take::<1>()? {
            [VERSION] => {}
            [version] => {
                let text = format!("the response has format version {version}, not {VERSION}");
                return Err(CodecError::new(text));
            }
        }
        let status = u16::from_be_bytes(reader.take()?);
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::from_u16(status).map_err(|_| damaged())?;
        for _ in 0..u16::from_be_bytes(reader.take()?) {
            let name = HeaderName::from_bytes(reader.part()?).map_err(|_| damaged())?;
            let value = HeaderValue::from_bytes(reader.part()?).map_err(|_| damaged())?;
            response.headers_mut().try_append(name, value).map_err(|_| damaged())?;
        }
        *response.body_mut() = Bytes::copy_from_slice(reader.0);
        Ok(Self::Whole { response, trailers: None })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn part(&mut self) -> Result<&'a [u8], CodecError> {
        let length = u32::from_be_bytes(self.take()?) as usize;
        let (part, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(part)
    }
}

fn damaged() -> CodecError {
    CodecError::new("the stored response is damaged")
}

fn too_many() -> CodecError {
    CodecError::new("the response has more headers than can be stored")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Stored = Exchange<http_body_util::Empty<Bytes>>;

    fn whole() -> Stored {
        let response = Response::builder()
            .status(201)
            .header("location", "/orders/1")
            .header("link", "a")
            .header("link", "b")
            .header("set-cookie", "session=1")
            .body(Bytes::from_static(b"\x00\xffbinary"))
            .unwrap();
        Exchange::Whole { response, trailers: None }
    }

    fn written(exchange: &Stored) -> Vec<u8> {
        let mut bytes = Vec::new();
        exchange.write_to(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_format_is_frozen() {
        let response = Response::builder().status(200).header("a", "b").body("c".into()).unwrap();
        let bytes = written(&Stored::Whole { response, trailers: None });
        assert_eq!(bytes, b"\x01\x00\xc8\x00\x01\x00\x00\x00\x01a\x00\x00\x00\x01bc");
    }

    #[test]
    fn whether_it_fits_is_known_before_it_is_written() {
        let bytes = written(&whole()).len() + 1;
        assert!(whole().fits(bytes));
        assert!(!whole().fits(bytes - 1));
    }

    #[test]
    fn a_response_comes_back_without_what_belonged_to_its_first_caller() {
        let bytes = written(&whole());
        let Stored::Whole { response, .. } = Stored::from_bytes(&bytes).unwrap() else {
            panic!("it was whole");
        };
        assert_eq!(response.status(), 201);
        assert_eq!(&response.body()[..], b"\x00\xffbinary");
        let links: Vec<_> = response.headers().get_all("link").iter().collect();
        assert_eq!(links, ["a", "b"]);
        assert!(!response.headers().contains_key("set-cookie"));
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let bytes = written(&whole());
        for length in 0..bytes.len() - b"\x00\xffbinary".len() {
            assert!(Stored::from_bytes(&bytes[..length]).is_err(), "cut to {length} bytes");
        }
        assert!(Stored::from_bytes(b"\x02").is_err());
    }
}
