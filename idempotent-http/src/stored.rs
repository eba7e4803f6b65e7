//! Responses as stored bytes.
//!
//! The first byte is the version. Numbers are big endian; names and values have their length, four
//! bytes, before them.
//!
//! | version | content | layout |
//! | --- | --- | --- |
//! | 1 | a response | status, fields, body |
//! | 2 | a response with trailers | `0`, status, fields, fields of the trailers, body |
//! | 2 | the status of a response whose body was not kept | `1`, status |
//!
//! A status has two bytes. Fields are their number, two bytes, then name and value of each. Version
//! 1 is written wherever it suffices, because earlier releases read only that.

use crate::exchange::Exchange;
use crate::headers::{HeaderChoices, replayed};
use crate::keeping::choices;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue, TRAILER};
use http::{HeaderMap, Response, StatusCode};
use idempotent_runtime::codec::{CodecError, StoredBytes};

const RESPONSE: u8 = 1;
const EXTENDED: u8 = 2;

/// The second byte of version 2.
const WITH_TRAILERS: u8 = 0;
const STATUS_ONLY: u8 = 1;

impl<B> StoredBytes for Exchange<B> {
    fn write_to(&self, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        match self {
            Self::Whole { response, trailers } => write_whole(bytes, response, trailers.as_ref()),
            Self::Live(response) => {
                write_status(bytes, response.status());
                Ok(())
            }
            Self::Flowed(status) => {
                write_status(bytes, *status);
                Ok(())
            }
        }
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader(bytes);
        let has_trailers = match reader.take::<1>()? {
            [RESPONSE] => false,
            [EXTENDED] => match reader.take::<1>()? {
                [WITH_TRAILERS] => true,
                [STATUS_ONLY] => return Ok(Self::Flowed(reader.status()?)),
                [kind] => return Err(unknown(format!("{EXTENDED}.{kind}"))),
            },
            [version] => return Err(unknown(version.to_string())),
        };
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = reader.status()?;
        // Interim responses are never written, and cannot be the answer to a request.
        if response.status().is_informational() {
            return Err(damaged());
        }
        *response.headers_mut() = reader.fields()?;
        let trailers = if has_trailers { Some(reader.fields()?) } else { None };
        *response.body_mut() = Bytes::copy_from_slice(reader.0);
        Ok(Self::Whole { response, trailers })
    }
}

/// The fields of a head, and those of trailers, that are stored.
struct Fields<'a> {
    head: &'a HeaderMap,
    trailers: Option<&'a HeaderMap>,
    choices: Option<&'a HeaderChoices>,
}

type Field<'a> = (&'a HeaderName, &'a HeaderValue);

impl<'a> Fields<'a> {
    fn new(response: &'a Response<Bytes>, trailers: Option<&'a HeaderMap>) -> Self {
        let (head, choices) = (response.headers(), choices(response));
        let trailers = trailers.filter(|trailers| replayed(trailers, choices).next().is_some());
        Self { head, trailers, choices }
    }

    /// The `Trailer` header, since HTTP/1.1 sends only the trailers that the head announces.
    fn announcement(&self) -> impl Iterator<Item = Field<'a>> {
        static NAME: HeaderName = TRAILER;
        let values = self.trailers.map(|_| self.head.get_all(&NAME).iter());
        values.into_iter().flatten().map(|value| (&NAME, value))
    }

    fn head(&self) -> impl Iterator<Item = Field<'a>> {
        replayed(self.head, self.choices).chain(self.announcement())
    }

    fn trailers(&self) -> Option<impl Iterator<Item = Field<'a>>> {
        self.trailers.map(|trailers| replayed(trailers, self.choices))
    }
}

/// `true` if [`write_whole`] writes no more than `most` bytes.
pub(crate) fn fits(response: &Response<Bytes>, trailers: Option<&HeaderMap>, most: usize) -> bool {
    let size = |(name, value): Field<'_>| 8 + name.as_str().len() + value.as_bytes().len();
    let fields = Fields::new(response, trailers);
    let after = fields.trailers().map_or(0, |trailers| 3 + trailers.map(size).sum::<usize>());
    let with = |head: usize| 5 + head + after + response.body().len() <= most;
    // The headers are filtered only if not all of them fit.
    with(response.headers().iter().map(size).sum()) || with(fields.head().map(size).sum())
}

fn write_whole(
    bytes: &mut Vec<u8>,
    response: &Response<Bytes>,
    trailers: Option<&HeaderMap>,
) -> Result<(), CodecError> {
    if response.status().is_informational() {
        return Err(CodecError::new("an interim response cannot be replayed"));
    }
    let fields = Fields::new(response, trailers);
    match fields.trailers() {
        None => {
            bytes.push(RESPONSE);
            bytes.extend(response.status().as_u16().to_be_bytes());
            write_fields(bytes, fields.head())?;
        }
        Some(trailers) => {
            bytes.extend([EXTENDED, WITH_TRAILERS]);
            bytes.extend(response.status().as_u16().to_be_bytes());
            write_fields(bytes, fields.head())?;
            write_fields(bytes, trailers)?;
        }
    }
    bytes.extend(response.body());
    Ok(())
}

fn write_status(bytes: &mut Vec<u8>, status: StatusCode) {
    bytes.extend([EXTENDED, STATUS_ONLY]);
    bytes.extend(status.as_u16().to_be_bytes());
}

fn write_fields<'a>(
    bytes: &mut Vec<u8>,
    fields: impl Iterator<Item = Field<'a>>,
) -> Result<(), CodecError> {
    let count_at = bytes.len();
    bytes.extend([0; 2]);
    let mut count = 0_u16;
    for (name, value) in fields {
        count = count.checked_add(1).ok_or_else(too_many)?;
        for part in [name.as_str().as_bytes(), value.as_bytes()] {
            let length = u32::try_from(part.len()).map_err(|_| too_many())?;
            bytes.extend(length.to_be_bytes());
            bytes.extend(part);
        }
    }
    bytes[count_at..count_at + 2].copy_from_slice(&count.to_be_bytes());
    Ok(())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn status(&mut self) -> Result<StatusCode, CodecError> {
        StatusCode::from_u16(u16::from_be_bytes(self.take()?)).map_err(|_| damaged())
    }

    fn fields(&mut self) -> Result<HeaderMap, CodecError> {
        let mut fields = HeaderMap::new();
        for _ in 0..u16::from_be_bytes(self.take()?) {
            let name = HeaderName::from_bytes(self.part()?).map_err(|_| damaged())?;
            let value = HeaderValue::from_bytes(self.part()?).map_err(|_| damaged())?;
            fields.try_append(name, value).map_err(|_| damaged())?;
        }
        Ok(fields)
    }

    fn part(&mut self) -> Result<&'a [u8], CodecError> {
        let length = u32::from_be_bytes(self.take()?) as usize;
        let (part, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(part)
    }
}

fn unknown(version: String) -> CodecError {
    CodecError::new(format!("the response has format version {version}, which is not known"))
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

    const BODY: &[u8] = b"\x00\xffbinary";

    fn response() -> Response<Bytes> {
        Response::builder()
            .status(201)
            .header("location", "/orders/1")
            .header("link", "a")
            .header("link", "b")
            .header("set-cookie", "session=1")
            .header("trailer", "grpc-status")
            .body(Bytes::from_static(BODY))
            .unwrap()
    }

    fn trailers() -> HeaderMap {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        trailers.insert("set-cookie", HeaderValue::from_static("session=1"));
        trailers
    }

    fn written(response: &Response<Bytes>, trailers: Option<&HeaderMap>) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_whole(&mut bytes, response, trailers).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Exchange<()>, CodecError> {
        Exchange::from_bytes(bytes)
    }

    fn read_whole(bytes: &[u8]) -> (Response<Bytes>, Option<HeaderMap>) {
        match read(bytes) {
            Ok(Exchange::Whole { response, trailers }) => (response, trailers),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_format_is_frozen() {
        let response = Response::builder().status(200).header("a", "b").body("c".into()).unwrap();
        let one = b"\x01\x00\xc8\x00\x01\x00\x00\x00\x01a\x00\x00\x00\x01bc";
        assert_eq!(written(&response, None), one);
        let trailers = HeaderMap::from_iter([("t".parse().unwrap(), "u".parse().unwrap())]);
        let two = b"\x02\x00\x00\xc8\x00\x01\x00\x00\x00\x01a\x00\x00\x00\x01b\
                    \x00\x01\x00\x00\x00\x01t\x00\x00\x00\x01uc";
        assert_eq!(written(&response, Some(&trailers)), two);
        let mut status = Vec::new();
        write_status(&mut status, StatusCode::OK);
        assert_eq!(status, b"\x02\x01\x00\xc8");
    }

    #[test]
    fn whether_it_fits_is_known_before_it_is_written() {
        for trailers in [None, Some(trailers())] {
            let bytes = written(&response(), trailers.as_ref()).len();
            assert!(fits(&response(), trailers.as_ref(), bytes));
            assert!(!fits(&response(), trailers.as_ref(), bytes - 1));
        }
    }

    #[test]
    fn a_response_comes_back_without_what_belonged_to_its_first_caller() {
        let (response, trailers) = read_whole(&written(&response(), None));
        assert_eq!(response.status(), 201);
        assert_eq!(&response.body()[..], BODY);
        let links: Vec<_> = response.headers().get_all("link").iter().collect();
        assert_eq!(links, ["a", "b"]);
        assert!(!response.headers().contains_key("set-cookie"));
        assert!(!response.headers().contains_key("trailer"));
        assert_eq!(trailers, None);
    }

    #[test]
    fn trailers_come_back_with_their_announcement() {
        let (response, read) = read_whole(&written(&response(), Some(&trailers())));
        assert_eq!(response.headers()["trailer"], "grpc-status");
        assert_eq!(&response.body()[..], BODY);
        let read = read.unwrap();
        assert_eq!((read.len(), &read["grpc-status"]), (1, &HeaderValue::from_static("0")));
    }

    #[test]
    fn a_status_comes_back() {
        let mut bytes = Vec::new();
        write_status(&mut bytes, StatusCode::CREATED);
        assert!(matches!(read(&bytes), Ok(Exchange::Flowed(StatusCode::CREATED))));
    }

    #[test]
    fn damaged_bytes_are_refused() {
        for trailers in [None, Some(trailers())] {
            let bytes = written(&response(), trailers.as_ref());
            for length in 0..bytes.len() - BODY.len() {
                assert!(read(&bytes[..length]).is_err(), "cut to {length} bytes");
            }
        }
        for bytes in [&b"\x03"[..], b"\x02\x02\x00\xc8", b"\x02\x01\x00", b"\x02\x01\x00\x01"] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
        for interim in [&b"\x01\x00\x65\x00\x00"[..], b"\x02\x00\x00\x65\x00\x00\x00\x00"] {
            assert!(read(interim).is_err(), "{interim:?}");
        }
    }
}
