//! Encoders: from a value to the payload of a message.

#[cfg(feature = "msgpack")]
use crate::format::MessagePack;
use crate::format::{Json, Raw};
use serde::Serialize;
use std::error::Error as StdError;
use std::fmt;

/// A way to write values of type `T` as payloads.
///
/// # Implementing
///
/// An implementation MUST write equal values as equal bytes, in every process: a payload that differs is
/// taken for another message. Beware of maps without an order, which serde writes as they come.
///
/// ```
/// use idempotent_queue::encode::{Encode, EncodeError};
///
/// struct Lines;
///
/// impl Encode<[String]> for Lines {
///     fn encode(&self, value: &[String]) -> Result<Vec<u8>, EncodeError> {
///         Ok(value.join("\n").into_bytes())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not encode `{T}`",
    label = "not an `idempotent_queue::encode::Encode<{T}>`",
    note = "`Json` and `MessagePack` encode types with `serde::Serialize`; `Raw` takes bytes and text as they are"
)]
pub trait Encode<T: ?Sized>: Send + Sync {
    /// Writes a value.
    ///
    /// # Errors
    /// The value has no form in this format.
    fn encode(&self, value: &T) -> Result<Vec<u8>, EncodeError>;
}

impl<T: Serialize + ?Sized> Encode<T> for Json {
    fn encode(&self, value: &T) -> Result<Vec<u8>, EncodeError> {
        serde_json::to_vec(value).map_err(EncodeError::new)
    }
}

#[cfg(feature = "msgpack")]
impl<T: Serialize + ?Sized> Encode<T> for MessagePack {
    fn encode(&self, value: &T) -> Result<Vec<u8>, EncodeError> {
        rmp_serde::to_vec_named(value).map_err(EncodeError::new)
    }
}

impl<T: AsRef<[u8]> + ?Sized> Encode<T> for Raw {
    fn encode(&self, value: &T) -> Result<Vec<u8>, EncodeError> {
        Ok(value.as_ref().to_vec())
    }
}

/// A value that has no form in the format of its message.
#[derive(Debug)]
pub struct EncodeError(Box<dyn StdError + Send + Sync>);

impl EncodeError {
    /// An error of the format.
    pub fn new(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl StdError for EncodeError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Order {
        id: u8,
    }

    #[test]
    fn payloads_are_written_in_the_format_that_was_chosen() {
        assert_eq!(Json.encode(&Order { id: 7 }).unwrap(), br#"{"id":7}"#);
        assert_eq!(Raw.encode("as it is").unwrap(), b"as it is");
        #[cfg(feature = "msgpack")]
        assert_eq!(MessagePack.encode(&Order { id: 7 }).unwrap(), b"\x81\xa2id\x07");
    }

    #[test]
    fn a_value_without_a_form_is_an_error() {
        let pairs = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(Json.encode(&pairs).unwrap_err().to_string().contains("key"));
    }
}
