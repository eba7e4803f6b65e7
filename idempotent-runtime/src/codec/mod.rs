//! Codecs: encoding of stored values.
//!
//! A stored value is one byte that names the codec, followed by the codec's output. The byte
//! selects the codec for reading, so that older answers stay readable after a change of codec.

mod erased;
mod error;
mod json;
mod lossless;
#[cfg(feature = "msgpack")]
mod message_pack;
mod registry;
#[cfg(feature = "encryption")]
mod seal;

use std::fmt::Debug;

pub(crate) use self::json::json_value;
#[cfg(feature = "msgpack")]
pub use self::message_pack::MessagePack;
pub(crate) use self::registry::{Codecs, own_bytes, spare};
#[cfg(feature = "encryption")]
pub use self::seal::Encryption;
pub use self::{
    erased::{Decode, Encode},
    error::CodecError,
    json::Json,
};

/// A format for stored values.
///
/// [`Json`] is the default, and `MessagePack` comes with the feature `msgpack`. Others can be
/// added by implementing this trait.
///
/// An implementation MUST
/// - return the same id and name forever, the id between `0x80` and `0xff`; ids below are reserved,
///   and an id that was used once MUST NOT be given to another format: stored values carry it;
/// - write bytes that `decode` reads back to an equal value, in every process that shares the
///   store, and fail on a value for which it has none; [`Encode::for_json`] does that for JSON;
/// - call [`Decode::deserialize`] exactly once in a successful `decode`, and fail if bytes are left
///   over after the value;
/// - fail on damaged bytes, and not invent a value.
///
/// It MAY panic: the panic is caught and counts as a failure. It MAY write empty bytes. It MAY put
/// anything into the text of an error except values, which must not reach logs.
///
/// ```
/// use idempotent_runtime::codec::{Codec, CodecError, Decode, Encode};
///
/// /// JSON with line breaks, for people who read the store.
/// #[derive(Debug)]
/// struct PrettyJson;
///
/// impl Codec for PrettyJson {
///     fn id(&self) -> u8 {
///         0x80
///     }
///
///     fn name(&self) -> &'static str {
///         "pretty-json"
///     }
///
///     fn encode(&self, value: Encode<'_>) -> Result<Vec<u8>, CodecError> {
///         serde_json::to_vec_pretty(&value.for_json()).map_err(CodecError::new)
///     }
///
///     fn decode(&self, bytes: &[u8], into: Decode<'_>) -> Result<(), CodecError> {
///         let mut json = serde_json::Deserializer::from_slice(bytes);
///         into.deserialize(&mut json).map_err(CodecError::new)?;
///         json.end().map_err(CodecError::new)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a codec",
    note = "use `idempotent_runtime::codec::Json`, or implement `Codec` for it"
)]
pub trait Codec: Debug + Send + Sync + 'static {
    /// The byte that names this codec in stored values.
    fn id(&self) -> u8;

    /// The name in errors.
    fn name(&self) -> &'static str;

    /// Encodes a value.
    ///
    /// # Errors
    /// The format cannot represent the value.
    fn encode(&self, value: Encode<'_>) -> Result<Vec<u8>, CodecError>;

    /// Decodes a value by passing a deserializer over `bytes` to `into`.
    ///
    /// # Errors
    /// The bytes are not exactly one value of the requested type.
    fn decode(&self, bytes: &[u8], into: Decode<'_>) -> Result<(), CodecError>;
}

/// A value that encodes itself and bypasses the codec of the instance.
///
/// For values that are bytes already, such as a whole response.
/// [`AnswerPolicy::bytes`](crate::AnswerPolicy::bytes) keeps such values.
pub trait StoredBytes: Sized {
    /// Appends the encoded value to `bytes`.
    ///
    /// # Errors
    /// The value cannot be kept. It is then recorded without one.
    fn write_to(&self, bytes: &mut Vec<u8>) -> Result<(), CodecError>;

    /// Decodes the output of [`write_to`](Self::write_to).
    ///
    /// # Errors
    /// The bytes are not exactly one value.
    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError>;
}

impl<T: StoredBytes> StoredBytes for Box<T> {
    fn write_to(&self, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        T::write_to(self, bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        T::from_bytes(bytes).map(Box::new)
    }
}

/// Ids of stored values. An id that was used once is never given to another format.
pub(crate) mod id {
    pub(crate) const JSON: u8 = 0x01;
    pub(crate) const MESSAGE_PACK: u8 = 0x02;
    /// Not a codec: the value encodes itself.
    pub(crate) const BYTES: u8 = 0x03;
    /// Not a codec: the value is encrypted, and its codec is inside.
    pub(crate) const SEALED: u8 = 0x7f;
    /// The first id that users may take.
    pub(crate) const FIRST_CUSTOM: u8 = 0x80;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_frozen() {
        assert_eq!(id::JSON, 1);
        assert_eq!(id::MESSAGE_PACK, 2);
        assert_eq!(id::BYTES, 3);
        assert_eq!(id::SEALED, 127);
        assert_eq!(id::FIRST_CUSTOM, 128);
        assert_eq!(Json.id(), id::JSON);
        #[cfg(feature = "msgpack")]
        assert_eq!(MessagePack.id(), id::MESSAGE_PACK);
    }
}
