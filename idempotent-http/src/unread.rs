//! Errors of reading a request's body, and their problems.

use crate::body::BoxError;
use crate::problem;
use http_body_util::LengthLimitError;
use idempotent_runtime::problem::Problem;
use std::error::Error as StdError;
use std::io;

/// Reasons for which the body of a request could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The body exceeds the limit of this layer or of one outside of it.
    TooLarge,
    /// A layer outside of this one could not decode the body. Sending it again would fail again.
    Undecodable,
    /// The body ended early.
    Incomplete,
}

impl Unread {
    /// Classifies the error of a body.
    ///
    /// Decoders, such as those of tower-http, fail with an [`io::Error`]. So do connections, but
    /// theirs are wrapped by the server that reads them, or say that the connection ended.
    pub(crate) fn from_error(error: BoxError) -> Self {
        if chain(&*error).any(|error| error.is::<LengthLimitError>()) {
            return Self::TooLarge;
        }
        let outermost = chain(&*error).find(|error| !is_wrapper(*error));
        match outermost.and_then(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind) {
            Some(
                io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other,
            ) => Self::Undecodable,
            _ => Self::Incomplete,
        }
    }

    /// The problem for the client. `what` names the requests that are read whole.
    pub(crate) fn problem(&self, what: &str) -> Problem {
        let (kind, detail) = match self {
            Self::TooLarge => {
                (problem::BODY_TOO_LARGE, format!("{what} are read whole, up to a limit"))
            }
            Self::Undecodable => {
                let detail = "it does not match its Content-Encoding".to_owned();
                (problem::BODY_UNDECODABLE, detail)
            }
            Self::Incomplete => (problem::BODY_INCOMPLETE, "it was cut off".to_owned()),
        };
        Problem::new(kind, format!("{detail} (it was not handled)"))
    }
}

/// An error and its sources, the outermost first.
fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// `true` for the type that axum's bodies put around every error.
fn is_wrapper(error: &(dyn StdError + 'static)) -> bool {
    #[cfg(feature = "axum")]
    return error.is::<axum::Error>();
    #[cfg(not(feature = "axum"))]
    {
        let _ = error;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_body::read;
    use bytes::Bytes;
    use http_body_util::{Full, Limited};
    use std::fmt;

    /// A server's error around one of its connection.
    #[derive(Debug)]
    struct OfAServer(io::Error);

    impl fmt::Display for OfAServer {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("error reading a body from connection")
        }
    }

    impl StdError for OfAServer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    fn io_error(kind: io::ErrorKind) -> io::Error {
        io::Error::new(kind, "as it says")
    }

    #[test]
    fn an_error_of_a_decoder_is_for_good() {
        for kind in [io::ErrorKind::InvalidData, io::ErrorKind::InvalidInput, io::ErrorKind::Other]
        {
            assert_eq!(Unread::from_error(io_error(kind).into()), Unread::Undecodable);
            #[cfg(feature = "axum")]
            {
                let wrapped = axum::Error::new(axum::Error::new(io_error(kind)));
                assert_eq!(Unread::from_error(wrapped.into()), Unread::Undecodable);
            }
        }
    }

    #[test]
    fn an_error_of_a_connection_passes() {
        for kind in [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset] {
            assert_eq!(Unread::from_error(io_error(kind).into()), Unread::Incomplete);
        }
        for kind in [io::ErrorKind::UnexpectedEof, io::ErrorKind::InvalidData] {
            let error = OfAServer(io_error(kind));
            assert_eq!(Unread::from_error(error.into()), Unread::Incomplete);
        }
    }

    #[tokio::test]
    async fn a_limit_further_out_counts_however_its_error_is_wrapped() {
        let body = |length| Full::new(Bytes::from_static(&b"12345"[..length]));
        assert_eq!(read(Limited::new(body(5), 4), 100).await.unwrap_err(), Unread::TooLarge);
        assert_eq!(read(Limited::new(body(4), 4), 100).await.unwrap().bytes(), b"1234");
        #[cfg(feature = "axum")]
        {
            let over = axum::body::Body::new(Limited::new(axum::body::Body::new(body(5)), 4));
            assert_eq!(read(over, 100).await.unwrap_err(), Unread::TooLarge);
        }
    }
}
